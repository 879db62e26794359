/* The values of flat dicts, kept beside their bytes.

   Messages are mostly such: a few keys, with texts and numbers. Of a list that a program hands back
   nearly all elements are those it was given, and their values the same objects. That is seen
   without packing them; and the next reader's dicts are made of these, without decoding. */

#include "leaves.h"

#include <stddef.h>

static inline int
is_leaf(PyObject *value)
{
    PyTypeObject *type = Py_TYPE(value);
    return type == &PyUnicode_Type || type == &PyLong_Type || type == &PyFloat_Type
           || type == &PyBytes_Type || type == &PyBool_Type || value == Py_None;
}

static inline int
is_key(PyObject *key, PyObject *known)
{
    if (key == known) {
        return 1;
    }
    return PyUnicode_CheckExact(key) && PyUnicode_IS_COMPACT_ASCII(key)
           && PyUnicode_IS_COMPACT_ASCII(known)
           && PyUnicode_GET_LENGTH(key) == PyUnicode_GET_LENGTH(known)
           && memcmp(PyUnicode_1BYTE_DATA(key), PyUnicode_1BYTE_DATA(known),
                     (size_t)PyUnicode_GET_LENGTH(key)) == 0;
}

int
leaves_are(const Leaves *leaves, Py_ssize_t n, PyObject *value)
{
    PyObject *const *values = leaves_of(leaves, n);
    if (values[0] == NULL || !PyDict_CheckExact(value) || PyDict_GET_SIZE(value) != leaves->width) {
        return 0;
    }
    Py_ssize_t position = 0;
    PyObject *key, *member;
    for (int at = 0; PyDict_Next(value, &position, &key, &member); at++) {
        if (member != values[at] || !is_key(key, leaves->items[at])) {
            return 0;
        }
    }
    return 1;
}

int
leaves_are_whole(const Leaves *leaves, Py_ssize_t count)
{
    int whole = leaves != NULL && leaves->count >= count;
    for (Py_ssize_t n = 0; whole && n < count; n++) {
        whole = leaves_of(leaves, n)[0] != NULL;
    }
    return whole;
}

int
leaves_make(const Leaves *leaves, Py_ssize_t count, Models *models, PyObject *list, Py_ssize_t at)
{
    for (Py_ssize_t n = 0; n < count; n++) {
        PyObject *const *values = leaves_of(leaves, n);
        int alike = models->count == leaves->width;
        for (int key = 0; n == 0 && alike && key < leaves->width; key++) {
            alike = models->keys[key] == leaves->items[key];
        }
        PyObject *dict = alike ? models_copy(models, values)
                               : models_begin(models, leaves->items, values, leaves->width);
        if (dict == NULL) {
            return -1;
        }
        PyList_SET_ITEM(list, at + n, dict);
    }
    return 0;
}

Leaves *
leaves_share(Leaves *leaves)
{
    if (leaves != NULL) {
        leaves->references += 1;
    }
    return leaves;
}

void
leaves_drop(Leaves *leaves)
{
    if (leaves == NULL || --leaves->references > 0) {
        return;
    }
    for (Py_ssize_t n = 0; n < leaves->width * (leaves->count + 1); n++) {
        Py_XDECREF(leaves->items[n]);
    }
    PyMem_Free(leaves);
}

/* -- as they are collected */

/* Room for an element's values. */
static PyObject **
more(Sapling *sapling)
{
    if (sapling->size + sapling->width > sapling->room) {
        Py_ssize_t room = 2 * sapling->room + 64;
        PyObject **items = PyMem_Realloc(sapling->items, (size_t)room * sizeof *items);
        if (items == NULL) {
            PyErr_NoMemory();
            return NULL;
        }
        sapling->items = items;
        sapling->room = room;
    }
    sapling->size += sapling->width;
    return sapling->items + sapling->size - sapling->width;
}

static int
add_none(Sapling *sapling)
{
    if (sapling->width == 0) {
        sapling->before += 1;
        return 0;
    }
    PyObject **to = more(sapling);
    if (to == NULL) {
        return -1;
    }
    memset(to, 0, (size_t)sapling->width * sizeof *to);
    return 0;
}

/* The first element that is flat: its keys are those that others are kept for. */
static int
take_keys(Sapling *sapling, PyObject *const *keys, Py_ssize_t width)
{
    sapling->width = (int)width;
    PyObject **to = more(sapling);
    if (to == NULL) {
        sapling->width = 0;
        return -1;
    }
    for (Py_ssize_t n = 0; n < width; n++) {
        to[n] = Py_NewRef(keys[n]);
    }
    for (; sapling->before > 0; sapling->before--) {
        if (add_none(sapling) < 0) {
            return -1;
        }
    }
    return 0;
}

static int
add_values(Sapling *sapling, PyObject *const *values)
{
    PyObject **to = more(sapling);
    if (to == NULL) {
        return -1;
    }
    for (int n = 0; n < sapling->width; n++) {
        to[n] = Py_XNewRef(values[n]);
    }
    return 0;
}

static int
has_keys(const Sapling *sapling, PyObject *const *keys, Py_ssize_t width)
{
    int same = sapling->width == width;
    for (Py_ssize_t n = 0; same && n < width; n++) {
        same = is_key(keys[n], sapling->items[n]);
    }
    return same;
}

int
sapling_add(Sapling *sapling, PyObject *value)
{
    PyObject *keys[MOST_KEYS], *values[MOST_KEYS];
    Py_ssize_t width = PyDict_CheckExact(value) ? PyDict_GET_SIZE(value) : 0, position = 0;
    int flat = width > 0 && width <= MOST_KEYS;
    for (Py_ssize_t n = 0; flat && PyDict_Next(value, &position, &keys[n], &values[n]); n++) {
        flat = PyUnicode_CheckExact(keys[n]) && is_leaf(values[n]);
    }
    if (flat && sapling->width == 0 && take_keys(sapling, keys, width) < 0) {
        return -1;
    }
    return flat && has_keys(sapling, keys, width) ? add_values(sapling, values)
                                                  : add_none(sapling);
}

int
sapling_add_kept(Sapling *sapling, const Leaves *leaves, Py_ssize_t count)
{
    if (leaves != NULL && sapling->width == 0
        && take_keys(sapling, leaves->items, leaves->width) < 0) {
        return -1;
    }
    int same = leaves != NULL && has_keys(sapling, leaves->items, leaves->width);
    for (Py_ssize_t n = 0; n < count; n++) {
        if ((same ? add_values(sapling, leaves_of(leaves, n)) : add_none(sapling)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* What one takes, and its place here. */
static Py_ssize_t
weight_of(PyObject *leaf)
{
    enum { PLACE = sizeof leaf, OBJECT = 48, UTF8 = 3 };
    if (leaf == NULL || leaf == Py_None || PyBool_Check(leaf)) {
        return PLACE;
    }
    if (PyBytes_Check(leaf)) {
        return PLACE + OBJECT + PyBytes_GET_SIZE(leaf);
    }
    if (!PyUnicode_Check(leaf)) {
        return PLACE + OBJECT;
    }
    /* A text that is not ASCII keeps its UTF-8 once it was packed. */
    int each = (int)PyUnicode_KIND(leaf) + (PyUnicode_IS_COMPACT_ASCII(leaf) ? 0 : UTF8);
    return PLACE + OBJECT + each * PyUnicode_GET_LENGTH(leaf);
}

Leaves *
sapling_finish(Sapling *sapling)
{
    Leaves *leaves = NULL;
    if (sapling->width > 0) {
        size_t size = (size_t)sapling->size * sizeof *sapling->items;
        leaves = PyMem_Malloc(offsetof(Leaves, items) + size);
        if (leaves != NULL) { /* else they are not kept */
            leaves->references = 1;
            leaves->count = sapling->size / sapling->width - 1;
            leaves->width = sapling->width;
            leaves->weight = 0;
            for (Py_ssize_t n = 0; n < sapling->size; n++) {
                leaves->items[n] = sapling->items[n];
                leaves->weight += weight_of(sapling->items[n]);
            }
            sapling->size = 0; /* they are taken over */
        }
    }
    sapling_drop(sapling);
    return leaves;
}

void
sapling_drop(Sapling *sapling)
{
    while (sapling->size > 0) {
        Py_XDECREF(sapling->items[--sapling->size]);
    }
    PyMem_Free(sapling->items);
    *sapling = (Sapling){NULL, 0, 0, 0, 0};
}
