/* Reads stored differences: milepost/checkpoint/splice.py says what they are. */

#include "native.h"

enum { WORTH_VIEWING = 4096 }; /* bytes from which a view costs less than a copy */

typedef struct {
    const unsigned char *start;
    const unsigned char *at;
    const unsigned char *end;
    PyObject *data; /* what the bytes are in */
    PyObject *view; /* of it, once one is needed */
} Source;

static int
number(Source *source, int width, uint64_t *found)
{
    if (source->end - source->at < width) {
        return 0;
    }
    uint64_t sum = 0;
    for (int n = 0; n < width; n++) {
        sum = sum << 8 | *source->at++;
    }
    *found = sum;
    return 1;
}

static PyObject *
new_bytes(Source *source, uint64_t size)
{
    if (size > (uint64_t)(source->end - source->at)) {
        return NULL;
    }
    Py_ssize_t from = source->at - source->start;
    const char *bytes = (const char *)source->at;
    source->at += size;
    if (size < WORTH_VIEWING) {
        return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
    }
    if (source->view == NULL) {
        source->view = PyMemoryView_FromObject(source->data);
    }
    if (source->view == NULL) {
        return NULL;
    }
    PyObject *first = PyLong_FromSsize_t(from), *last = PyLong_FromSsize_t(from + (Py_ssize_t)size);
    PyObject *part = first && last ? PySlice_New(first, last, NULL) : NULL;
    PyObject *found = part ? PyObject_GetItem(source->view, part) : NULL;
    Py_XDECREF(first);
    Py_XDECREF(last);
    Py_XDECREF(part);
    return found;
}

static int
position(Source *source, uint64_t *found)
{
    uint64_t head;
    if (!number(source, 1, &head)) {
        return 0;
    }
    if (head < 0x80) {
        *found = head;
        return 1;
    }
    return head >= 0xcc && head <= 0xcf && number(source, 1 << (head - 0xcc), found)
           && *found <= INT64_MAX;
}

static PyObject *
step(Source *source)
{
    uint64_t head, first, second;
    if (!number(source, 1, &head)) {
        return NULL;
    }
    if (head == 0x92) {
        if (!position(source, &first) || !position(source, &second)) {
            return NULL;
        }
        return Py_BuildValue("(LL)", (long long)first, (long long)second);
    }
    if (head < 0xc4 || head > 0xc6 || !number(source, 1 << (head - 0xc4), &first)) {
        return NULL;
    }
    return new_bytes(source, first);
}

static PyObject *
read_steps(Source *source)
{
    uint64_t head, count;
    if (!number(source, 1, &head)) {
        return NULL;
    }
    if (head >= 0x90 && head < 0xa0) {
        count = head & 0x0f;
    }
    else if ((head != 0xdc && head != 0xdd) || !number(source, head == 0xdc ? 2 : 4, &count)) {
        return NULL;
    }
    if (count > (uint64_t)(source->end - source->at)) {
        return NULL; /* no room is taken on the word of a length */
    }
    PyObject *steps = PyList_New((Py_ssize_t)count);
    for (Py_ssize_t n = 0; steps != NULL && n < (Py_ssize_t)count; n++) {
        PyObject *one = step(source);
        if (one == NULL) {
            Py_CLEAR(steps);
        }
        else {
            PyList_SET_ITEM(steps, n, one);
        }
    }
    if (steps != NULL && source->at != source->end) {
        Py_CLEAR(steps);
    }
    return steps;
}

/* steps(data): the steps of a stored difference; large ones are views. None if it is none. */
PyObject *
native_steps(PyObject *Py_UNUSED(module), PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const unsigned char *bytes = view.buf;
    Source source = {bytes, bytes, bytes + view.len, data, NULL};
    PyObject *steps = read_steps(&source);
    Py_XDECREF(source.view);
    PyBuffer_Release(&view);
    if (steps == NULL && !PyErr_Occurred()) {
        Py_RETURN_NONE;
    }
    return steps;
}

/* -- rows of which each adds to the value before it */

enum {
    CHANNEL, VERSION, BASE_CHANNEL, BASE, LEVEL, KIND, DATA, COLUMNS, /* of a row */
    WHAT = 0, THREAD, NS, NAMES,                                      /* of a place */
};

/* A value as it has grown so far. */
typedef struct {
    Py_ssize_t head; /* bytes of it */
    Py_ssize_t size; /* bytes of its elements */
    Py_ssize_t count;
    int is_list;
    PyObject *heads, *counts, *pieces; /* of each row */
} Grown;

/* Appends, and takes over, what may be NULL. */
static int
append(PyObject *list, PyObject *one)
{
    int done = one == NULL ? -1 : PyList_Append(list, one);
    Py_XDECREF(one);
    return done;
}

/* The bytes of a step that has new ones; they are read. */
static const unsigned char *
literal(Source *source, uint64_t *size)
{
    uint64_t head;
    if (!number(source, 1, &head) || head < 0xc4 || head > 0xc6
        || !number(source, 1 << (head - 0xc4), size)
        || *size > (uint64_t)(source->end - source->at)) {
        return NULL;
    }
    source->at += *size;
    return source->at - *size;
}

/* A program of three steps: a new head, all elements there were, and more of them. */
static Outcome
grow_by(Grown *grown, Source *source)
{
    uint64_t steps, pair, start, kept, size;
    Py_ssize_t count;
    int is_list;
    if (!number(source, 1, &steps) || steps != 0x93) {
        return NOT_PLAIN;
    }
    const unsigned char *head = literal(source, &size);
    if (head == NULL
        || read_head(head, source->at, PY_SSIZE_T_MAX, &is_list, &count) != source->at
        || is_list != grown->is_list || count < grown->count) {
        return NOT_PLAIN;
    }
    if (!number(source, 1, &pair) || pair != 0x92 || !position(source, &start)
        || !position(source, &kept) || start != (uint64_t)grown->head
        || kept != (uint64_t)grown->size) {
        return NOT_PLAIN;
    }
    const unsigned char *added = source->at;
    uint64_t more;
    if (literal(source, &more) == NULL || source->at != source->end) {
        return NOT_PLAIN;
    }
    source->at = added;
    if (append(grown->heads, PyBytes_FromStringAndSize((const char *)head, (Py_ssize_t)size)) < 0
        || append(grown->counts, PyLong_FromSsize_t(count)) < 0
        || append(grown->pieces, step(source)) < 0) {
        return FAILED;
    }
    grown->head = (Py_ssize_t)size;
    grown->count = count;
    grown->size += (Py_ssize_t)more;
    return PACKED;
}

static Outcome
grow_by_row(Grown *grown, PyObject *row, PyObject *place)
{
    if (!PyTuple_Check(row) || PyTuple_GET_SIZE(row) != COLUMNS) {
        return NOT_PLAIN;
    }
    PyObject *const *columns = &PyTuple_GET_ITEM(row, 0), *data = columns[DATA];
    if (!PyBytes_CheckExact(data)) {
        return NOT_PLAIN;
    }
    PyObject *const *at = &PyTuple_GET_ITEM(place, 0);
    PyObject *names[] = {at[WHAT], at[THREAD], at[NS], columns[CHANNEL], columns[VERSION]};
    Bound to = {names, sizeof names / sizeof *names, columns + BASE_CHANNEL, DATA - BASE_CHANNEL};
    const unsigned char *bytes = (const unsigned char *)PyBytes_AS_STRING(data);
    Py_ssize_t size = PyBytes_GET_SIZE(data);
    int holds = cell_holds(bytes, size, &to);
    if (holds <= 0) {
        return holds < 0 ? FAILED : NOT_PLAIN;
    }
    Source source = {bytes, bytes, bytes + size - SUM, data, NULL};
    Outcome outcome = grow_by(grown, &source);
    Py_XDECREF(source.view);
    return outcome;
}

static int
take_size(PyObject *given, Py_ssize_t *size)
{
    *size = PyLong_AsSsize_t(given);
    return *size != -1 || !PyErr_Occurred();
}

/* grow(rows, place, head, size, count, is_list): heads, numbers of elements and new elements of
   rows that each add to the value before; that of the first has a head, elements of some size, and
   so many of them. None if a row does anything else, or is damaged. */
PyObject *
native_grow(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 6 || !PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[1]) != NAMES) {
        PyErr_SetString(PyExc_TypeError, "grow takes rows, a place of three names, and a value");
        return NULL;
    }
    Grown grown = {.is_list = PyObject_IsTrue(args[5])};
    if (grown.is_list < 0 || !take_size(args[2], &grown.head) || !take_size(args[3], &grown.size)
        || !take_size(args[4], &grown.count)) {
        return NULL;
    }
    PyObject *rows = PySequence_Tuple(args[0]); /* which nobody can change meanwhile */
    grown.heads = rows == NULL ? NULL : PyList_New(0);
    grown.counts = grown.heads == NULL ? NULL : PyList_New(0);
    grown.pieces = grown.counts == NULL ? NULL : PyList_New(0);
    Outcome outcome = grown.pieces == NULL ? FAILED : PACKED;
    for (Py_ssize_t n = 0; outcome == PACKED && n < PyTuple_GET_SIZE(rows); n++) {
        outcome = grow_by_row(&grown, PyTuple_GET_ITEM(rows, n), args[1]);
    }
    Py_XDECREF(rows);
    PyObject *found = NULL;
    if (outcome == PACKED) {
        found = PyTuple_Pack(3, grown.heads, grown.counts, grown.pieces);
    }
    Py_XDECREF(grown.heads);
    Py_XDECREF(grown.counts);
    Py_XDECREF(grown.pieces);
    return outcome == NOT_PLAIN ? Py_NewRef(Py_None) : found;
}
