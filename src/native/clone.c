/* Independent copies of plain values: lists and dicts are new, what cannot change is shared.

   Making a list or dict may start the garbage collector, and that any Python code. So a list may
   become shorter meanwhile, and what it held may go: each is looked at anew, and held. */

#include "native.h"

static PyObject *clone_value(PyObject *value, int depth);

/* A value that cannot change, and that holds nothing that can. */
static inline int
is_atom(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type
           || value == Py_None || type == &PyBool_Type || type == &PyBytes_Type;
}

/* NotImplemented is the answer for whatever is not plain: no exception, and no copy. */
static inline int
is_refused(PyObject *copy)
{
    return copy == Py_NotImplemented;
}

/* What to return instead of a container, of which a member was not copied. */
static PyObject *
given_up(PyObject *container, PyObject *member)
{
    Py_DECREF(container);
    return member;
}

static PyObject *
clone_list(PyObject *value, int depth)
{
    Py_ssize_t count = PyList_GET_SIZE(value);
    PyObject *copy = PyList_New(count);
    for (Py_ssize_t n = 0; copy != NULL && n < count; n++) {
        if (n >= PyList_GET_SIZE(value)) {
            return given_up(copy, Py_NewRef(Py_NotImplemented));
        }
        PyObject *held = Py_NewRef(PyList_GET_ITEM(value, n));
        PyObject *member = clone_value(held, depth);
        Py_DECREF(held);
        if (member == NULL || is_refused(member)) {
            return given_up(copy, member);
        }
        PyList_SET_ITEM(copy, n, member);
    }
    return copy;
}

/* The tuple itself, if nothing in it had to be copied. */
static PyObject *
clone_tuple(PyObject *value, int depth)
{
    Py_ssize_t count = PyTuple_GET_SIZE(value);
    int is_same = 1;
    PyObject *copy = PyTuple_New(count);
    for (Py_ssize_t n = 0; copy != NULL && n < count; n++) {
        PyObject *member = clone_value(PyTuple_GET_ITEM(value, n), depth);
        if (member == NULL || is_refused(member)) {
            return given_up(copy, member);
        }
        is_same = is_same && member == PyTuple_GET_ITEM(value, n);
        PyTuple_SET_ITEM(copy, n, member);
    }
    if (copy != NULL && is_same) {
        Py_DECREF(copy);
        return Py_NewRef(value);
    }
    return copy;
}

static PyObject *
clone_dict(PyObject *value, int depth)
{
    PyObject *copy = PyDict_Copy(value);
    Py_ssize_t position = 0;
    PyObject *key, *member;
    while (copy != NULL && PyDict_Next(copy, &position, &key, &member)) {
        if (!is_atom(key)) {
            return given_up(copy, Py_NewRef(Py_NotImplemented));
        }
        if (is_atom(member)) {
            continue;
        }
        PyObject *other = clone_value(member, depth);
        if (other == NULL || is_refused(other)) {
            return given_up(copy, other);
        }
        /* The key is there, so the dict does not change its shape under `position`. */
        int failed = PyDict_SetItem(copy, key, other) < 0;
        Py_DECREF(other);
        if (failed) {
            return given_up(copy, NULL);
        }
    }
    return copy;
}

static PyObject *
clone_value(PyObject *value, int depth)
{
    if (is_atom(value)) {
        return Py_NewRef(value);
    }
    if (depth < MOST_LISTS_READ) {
        PyTypeObject *type = Py_TYPE(value);
        if (type == &PyDict_Type) {
            return clone_dict(value, depth + 1);
        }
        if (type == &PyList_Type) {
            return clone_list(value, depth + 1);
        }
        if (type == &PyTuple_Type) {
            return clone_tuple(value, depth + 1);
        }
    }
    return Py_NewRef(Py_NotImplemented);
}

/* clone(value): an independent copy of a plain value; NotImplemented if it is not one. */
PyObject *
native_clone(PyObject *Py_UNUSED(module), PyObject *value)
{
    return clone_value(value, 0);
}
