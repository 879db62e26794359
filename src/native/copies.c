/* Copies of the elements of a list, which a saver keeps beside their bytes.

   A program mostly hands back what it was given: other lists and dicts perhaps, but the same texts
   and numbers in them. Where these are the same objects in the same places, the bytes are the same,
   and nothing has to be packed. And what is handed out next is a copy of the copy, so that nothing
   has to be decoded.

   A copy is what reading the bytes would give: plain values and models in brief form, no two of
   their containers the same. Only exact built-in types, and slots of models: no Python code runs
   here, and while garbage is not collected nothing can change. */

#include "native.h"

static inline int
is_plain(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyDict_Type || type == &PyUnicode_Type || type == &PyList_Type
           || type == &PyLong_Type || type == &PyFloat_Type || type == &PyTuple_Type
           || type == &PyBool_Type || value == Py_None || type == &PyBytes_Type;
}

/* -- models */

/* How a class is copied: (slots, names of its fields); NULL if it is not. */
static PyObject *
way_of(PyTypeObject *type, PyObject *models)
{
    PyObject *form = models == NULL ? NULL : PyDict_GetItemWithError(models, (PyObject *)type);
    PyObject *way = form == NULL ? NULL : PyTuple_GET_ITEM(form, 3);
    return way == Py_None ? NULL : way;
}

/* Takes what is in the slots of a model; false if one is empty, or it is not usual. */
static int
take_slots(PyObject *model, PyObject *way, PyObject **slots)
{
    for (int n = 0; n < SLOTS; n++) {
        PyObject *slot = PyTuple_GET_ITEM(PyTuple_GET_ITEM(way, 0), n);
        slots[n] = Py_TYPE(slot)->tp_descr_get(slot, model, (PyObject *)Py_TYPE(model));
        if (slots[n] == NULL) {
            return 0;
        }
    }
    return slots[PRIVATE] == Py_None && PyAnySet_CheckExact(slots[GIVEN])
           && PyDict_CheckExact(slots[FIELDS])
           && (slots[EXTRA] == Py_None
               || (PyDict_CheckExact(slots[EXTRA]) && PyDict_GET_SIZE(slots[EXTRA]) == 0));
}

static void
drop_slots(PyObject **slots)
{
    for (int n = 0; n < SLOTS; n++) {
        Py_XDECREF(slots[n]);
    }
}

/* A model with these values in its slots; NULL, with an exception, if one of them is. The references
   are taken. */
PyObject *
new_model(PyTypeObject *cls, PyObject *slots, PyObject **values)
{
    PyObject *none = PyTuple_New(0);
    PyObject *model = none == NULL ? NULL : PyBaseObject_Type.tp_new(cls, none, NULL);
    for (int n = 0; model != NULL && n < SLOTS; n++) {
        PyObject *slot = PyTuple_GET_ITEM(slots, n);
        if (values[n] == NULL || Py_TYPE(slot)->tp_descr_set(slot, model, values[n]) < 0) {
            Py_CLEAR(model);
        }
    }
    drop_slots(values);
    Py_XDECREF(none);
    return model;
}

/* Whether a model has its fields, in order, and nothing else: others are completed when they are
   read. */
int
has_fields(PyObject *fields, PyObject *names)
{
    Py_ssize_t position = 0, n = 0;
    PyObject *key, *member;
    if (PyDict_GET_SIZE(fields) != PyTuple_GET_SIZE(names)) {
        return 0;
    }
    while (PyDict_Next(fields, &position, &key, &member)) {
        PyObject *name = PyTuple_GET_ITEM(names, n++);
        if (key != name && (!PyUnicode_CheckExact(key) || PyUnicode_Compare(key, name) != 0)) {
            return 0;
        }
    }
    return 1;
}

static PyObject *copy_of(PyObject *value);

static PyObject *
copy_of_model(PyObject *model, PyObject *way)
{
    PyObject *slots[SLOTS] = {NULL}, *copy = NULL;
    if (take_slots(model, way, slots) && has_fields(slots[FIELDS], PyTuple_GET_ITEM(way, 1))) {
        PyObject *values[SLOTS] = {
            [GIVEN] = PySet_New(slots[GIVEN]),
            [EXTRA] = slots[EXTRA] == Py_None ? Py_NewRef(Py_None) : PyDict_New(),
            [PRIVATE] = Py_NewRef(Py_None),
            [FIELDS] = copy_of(slots[FIELDS]),
        };
        copy = new_model(Py_TYPE(model), PyTuple_GET_ITEM(way, 0), values);
    }
    drop_slots(slots);
    return copy;
}

/* -- copies */

static PyObject *
copy_of_dict(PyObject *dict)
{
    PyObject *copy = PyDict_Copy(dict), *key, *member;
    Py_ssize_t position = 0;
    if (!PyObject_GC_IsTracked(dict)) {
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

/* A copy of a plain value. */
static PyObject *
copy_of(PyObject *value)
{
    if (PyDict_CheckExact(value)) {
        return copy_of_dict(value);
    }
    int is_list = PyList_CheckExact(value);
    if (!is_list && !PyTuple_CheckExact(value)) {
        return Py_NewRef(value);
    }
    Py_ssize_t count = Py_SIZE(value);
    PyObject *copy = is_list ? PyList_New(count) : PyTuple_New(count);
    for (Py_ssize_t n = 0; copy != NULL && n < count; n++) {
        PyObject *inner = copy_of(is_list ? PyList_GET_ITEM(value, n) : PyTuple_GET_ITEM(value, n));
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

/* A copy of an element that was packed, or of such a copy; NULL if there can be none, with an
   exception if there is no room for it. */
PyObject *
copy_of_element(PyObject *value, PyObject *models)
{
    if (is_plain(value)) {
        return copy_of(value);
    }
    PyObject *way = way_of(Py_TYPE(value), models);
    PyObject *copy = way == NULL ? NULL : copy_of_model(value, way);
    if (copy == NULL && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
    }
    return copy;
}

/* -- whether a value is still what was copied */

/* Containers of a copy are nowhere else, so that only what cannot change is the same object. */
static int
are_same(PyObject *kept, PyObject *value)
{
    if (kept == value) {
        return 1;
    }
    PyTypeObject *type = Py_TYPE(value);
    if (Py_TYPE(kept) != type) {
        return 0;
    }
    if (type == &PyDict_Type) {
        PyObject *key, *member, *kept_key, *kept_member;
        Py_ssize_t position = 0, kept_position = 0;
        int same = PyDict_GET_SIZE(kept) == PyDict_GET_SIZE(value);
        for (Py_ssize_t left = PyDict_GET_SIZE(value); same && left > 0; left--) {
            same = PyDict_Next(value, &position, &key, &member)
                   && PyDict_Next(kept, &kept_position, &kept_key, &kept_member) && key == kept_key
                   && (member == kept_member || are_same(kept_member, member));
        }
        return same;
    }
    int is_list = type == &PyList_Type;
    int same = (is_list || type == &PyTuple_Type) && Py_SIZE(kept) == Py_SIZE(value);
    for (Py_ssize_t n = 0; same && n < Py_SIZE(value); n++) {
        same = is_list ? are_same(PyList_GET_ITEM(kept, n), PyList_GET_ITEM(value, n))
                       : are_same(PyTuple_GET_ITEM(kept, n), PyTuple_GET_ITEM(value, n));
    }
    return same;
}

/* Whether a value surely has the bytes of the one that was copied. That it does not is no sign that
   it has others: its texts may be other objects. */
int
is_as_copied(PyObject *kept, PyObject *value, PyObject *models)
{
    if (is_plain(value)) {
        return are_same(kept, value);
    }
    PyObject *way = Py_TYPE(kept) == Py_TYPE(value) ? way_of(Py_TYPE(value), models) : NULL;
    if (way == NULL) {
        return 0;
    }
    PyObject *slots[SLOTS] = {NULL}, *before[SLOTS] = {NULL};
    int same = take_slots(kept, way, before) && take_slots(value, way, slots)
               && Py_TYPE(slots[EXTRA]) == Py_TYPE(before[EXTRA])
               && are_same(before[FIELDS], slots[FIELDS])
               && PyObject_RichCompareBool(before[GIVEN], slots[GIVEN], Py_EQ) > 0;
    drop_slots(slots);
    drop_slots(before);
    PyErr_Clear();
    return same;
}

/* copies(elements, models): copies of elements that are copies themselves; None if there can be none
   of one of them any more. */
PyObject *
native_copies(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2 || !PyList_CheckExact(args[0])) {
        PyErr_SetString(PyExc_TypeError, "copies takes a list and models");
        return NULL;
    }
    PyObject *models = PyDict_CheckExact(args[1]) ? args[1] : NULL;
    int collects = PyGC_Disable();
    PyObject *copies = PyList_New(PyList_GET_SIZE(args[0]));
    for (Py_ssize_t n = 0; copies != NULL && n < PyList_GET_SIZE(copies); n++) {
        PyObject *copy = copy_of_element(PyList_GET_ITEM(args[0], n), models);
        if (copy == NULL) {
            Py_CLEAR(copies);
        }
        else {
            PyList_SET_ITEM(copies, n, copy);
        }
    }
    if (collects) {
        PyGC_Enable();
    }
    return copies == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : copies;
}
