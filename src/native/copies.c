/* Copies of the elements of a list, which a saver keeps beside their bytes.

   A program mostly hands back what it was given: other lists and dicts perhaps, but the same texts
   and numbers in them. Where these are the same objects in the same places, the bytes are the same,
   and nothing has to be packed. And what is handed out next is a copy of the copy, so that nothing
   has to be decoded.

   A copy is what reading the bytes would give: no two of its containers are the same. There are only
   exact built-in types in it, so no Python code runs here, and while garbage is not collected nothing
   can change. */

#include "native.h"

static inline PyObject *const *
members_of(PyObject *value)
{
    return PyList_CheckExact(value) ? ((PyListObject *)value)->ob_item
                                    : ((PyTupleObject *)value)->ob_item;
}

/* A copy of a value that was packed, or of such a copy. */
PyObject *
copy_of(PyObject *value)
{
    if (PyDict_CheckExact(value)) {
        PyObject *copy = PyDict_Copy(value), *key, *member;
        Py_ssize_t position = 0;
        if (!PyObject_GC_IsTracked(value)) {
            return copy; /* there is nothing in it that can change */
        }
        while (copy != NULL && PyDict_Next(copy, &position, &key, &member)) {
            PyObject *inner = copy_of(member);
            if (inner == NULL || (inner != member && PyDict_SetItem(copy, key, inner) < 0)) {
                Py_CLEAR(copy);
            }
            Py_XDECREF(inner);
        }
        return copy;
    }
    int is_list = PyList_CheckExact(value);
    if (!is_list && !PyTuple_CheckExact(value)) {
        return Py_NewRef(value);
    }
    PyObject *copy = is_list ? PyList_New(Py_SIZE(value)) : PyTuple_New(Py_SIZE(value));
    for (Py_ssize_t n = 0; copy != NULL && n < Py_SIZE(value); n++) {
        PyObject *inner = copy_of(members_of(value)[n]);
        if (inner == NULL) {
            Py_CLEAR(copy);
        }
        else if (is_list) {
            PyList_SET_ITEM(copy, n, inner);
        }
        else {
            PyTuple_SET_ITEM(copy, n, inner);
        }
    }
    return copy;
}

/* Whether a value surely has the bytes of the one that was copied. That it does not is no sign that
   it has others: its texts may be other objects. Containers of a copy are nowhere else, so that only
   what cannot change is the same object. */
int
is_as_copied(PyObject *kept, PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    if (kept == value || Py_TYPE(kept) != type) {
        return kept == value;
    }
    if (type == &PyDict_Type) {
        PyObject *key, *member, *kept_key, *kept_member;
        Py_ssize_t position = 0, kept_position = 0;
        int same = PyDict_GET_SIZE(kept) == PyDict_GET_SIZE(value);
        for (Py_ssize_t left = PyDict_GET_SIZE(value); same && left > 0; left--) {
            same = PyDict_Next(value, &position, &key, &member)
                   && PyDict_Next(kept, &kept_position, &kept_key, &kept_member) && key == kept_key
                   && (member == kept_member || is_as_copied(kept_member, member));
        }
        return same;
    }
    int same = (type == &PyList_Type || type == &PyTuple_Type) && Py_SIZE(kept) == Py_SIZE(value);
    for (Py_ssize_t n = 0; same && n < Py_SIZE(value); n++) {
        same = is_as_copied(members_of(kept)[n], members_of(value)[n]);
    }
    return same;
}

/* copies(list): a copy of a list of copies. */
PyObject *
native_copies(PyObject *Py_UNUSED(module), PyObject *list)
{
    if (!PyList_CheckExact(list)) {
        PyErr_SetString(PyExc_TypeError, "copies takes a list");
        return NULL;
    }
    int collects = PyGC_Disable();
    PyObject *copy = copy_of(list);
    if (collects) {
        PyGC_Enable();
    }
    return copy;
}
