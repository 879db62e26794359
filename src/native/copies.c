/* Copies of elements that were decoded once. */

#include "native.h"

/* copies(elements, count): the first ones in a list of its own, with a copy of each dict. */
PyObject *
native_copies(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t number)
{
    if (number != 2 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "copies takes a list and a number");
        return NULL;
    }
    PyObject *elements = args[0];
    Py_ssize_t count = PyNumber_AsSsize_t(args[1], PyExc_OverflowError);
    if (count < 0 || count > PyList_GET_SIZE(elements)) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_ValueError, "there are not so many elements");
        }
        return NULL;
    }
    PyObject *found = PyList_New(count);
    for (Py_ssize_t n = 0; found != NULL && n < count; n++) {
        /* A copy can make the garbage collector run, and that other code. */
        if (n >= PyList_GET_SIZE(elements)) {
            PyErr_SetString(PyExc_RuntimeError, "the elements were changed while they were copied");
            Py_CLEAR(found);
            break;
        }
        PyObject *element = Py_NewRef(PyList_GET_ITEM(elements, n));
        PyObject *copy = PyDict_CheckExact(element) ? PyDict_Copy(element) : Py_NewRef(element);
        Py_DECREF(element);
        if (copy == NULL) {
            Py_CLEAR(found);
        }
        else {
            PyList_SET_ITEM(found, n, copy);
        }
    }
    return found;
}
