/* The elements of a list or dict, packed, and where each of them is.

   They come in segments: bytes, and cuts in them. Cuts are numbers of eight bytes in the machine's
   order: where the first element of a segment begins, and where each one ends. Segments are of
   moderate size, because large pieces of memory are given back to the system, and getting them
   again costs more than all the packing. */

#include "native.h"

enum { SEGMENT = 1 << 16 };

static inline void
set_cut(PyObject *cuts, Py_ssize_t n, Py_ssize_t at)
{
    uint64_t number = (uint64_t)at;
    memcpy(PyBytes_AS_STRING(cuts) + 8 * n, &number, 8);
}

/* -- elements one after the other */

typedef struct {
    PyObject *segments;
    Py_ssize_t segment;
    Py_ssize_t n; /* of the next element in it; going back, how many are left in it */
} Cursor;

static inline Py_ssize_t
count_of(PyObject *segments, Py_ssize_t n)
{
    return PyBytes_GET_SIZE(PyTuple_GET_ITEM(PyTuple_GET_ITEM(segments, n), 1)) / 8 - 1;
}

/* How many elements there are; -1 with an exception if these are no segments. */
static Py_ssize_t
count_all(PyObject *segments)
{
    Py_ssize_t total = 0;
    if (PyTuple_CheckExact(segments)) {
        for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(segments); n++) {
            PyObject *pair = PyTuple_GET_ITEM(segments, n);
            if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2
                || !PyBytes_CheckExact(PyTuple_GET_ITEM(pair, 0))
                || !PyBytes_CheckExact(PyTuple_GET_ITEM(pair, 1))
                || PyBytes_GET_SIZE(PyTuple_GET_ITEM(pair, 1)) < 8) {
                total = -1;
                break;
            }
            total += count_of(segments, n);
        }
        if (total >= 0) {
            return total;
        }
    }
    PyErr_SetString(PyExc_TypeError, "segments are a tuple of pairs of bytes and cuts");
    return -1;
}

/* Where an element is; false if its cuts are not in the data. */
static inline int
element(PyObject *segments, Py_ssize_t segment, Py_ssize_t n, const char **at, uint64_t *size)
{
    PyObject *pair = PyTuple_GET_ITEM(segments, segment);
    uint64_t cut[2];
    memcpy(cut, PyBytes_AS_STRING(PyTuple_GET_ITEM(pair, 1)) + 8 * n, sizeof cut);
    *at = PyBytes_AS_STRING(PyTuple_GET_ITEM(pair, 0)) + cut[0];
    *size = cut[1] - cut[0];
    return cut[0] <= cut[1] && cut[1] <= (uint64_t)PyBytes_GET_SIZE(PyTuple_GET_ITEM(pair, 0));
}

/* The next element; the caller has counted that there is one. */
static inline int
forward(Cursor *cursor, const char **at, uint64_t *size)
{
    while (cursor->n >= count_of(cursor->segments, cursor->segment)) {
        cursor->segment += 1;
        cursor->n = 0;
    }
    return element(cursor->segments, cursor->segment, cursor->n++, at, size);
}

static inline Cursor
from_end(PyObject *segments)
{
    return (Cursor){segments, PyTuple_GET_SIZE(segments), 0};
}

static inline int
backward(Cursor *cursor, const char **at, uint64_t *size)
{
    while (cursor->n == 0) {
        cursor->segment -= 1;
        cursor->n = count_of(cursor->segments, cursor->segment);
    }
    return element(cursor->segments, cursor->segment, --cursor->n, at, size);
}

/* How many of the last `most` elements are the same. */
static Py_ssize_t
same_from_end(PyObject *old, PyObject *new, Py_ssize_t most)
{
    Cursor left = from_end(old), right = from_end(new);
    const char *one, *other;
    uint64_t size, other_size;
    Py_ssize_t found = 0;
    while (found < most && backward(&left, &one, &size) && backward(&right, &other, &other_size)
           && size == other_size && memcmp(one, other, (size_t)size) == 0) {
        found++;
    }
    return found;
}

/* same(old, new): how many elements are the same from the start, and how many of the others from
   the end. */
PyObject *
native_same(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "same takes 2 arguments, not %zd", count);
    }
    Py_ssize_t old = count_all(args[0]), new = old < 0 ? -1 : count_all(args[1]);
    if (new < 0) {
        return NULL;
    }
    Py_ssize_t most = old < new ? old : new, first = 0;
    Cursor left = {args[0], 0, 0}, right = {args[1], 0, 0};
    const char *one, *other;
    uint64_t size, other_size;
    while (first < most && forward(&left, &one, &size) && forward(&right, &other, &other_size)
           && size == other_size && memcmp(one, other, (size_t)size) == 0) {
        first++;
    }
    return Py_BuildValue("nn", first, same_from_end(args[0], args[1], most - first));
}

/* -- packing */

typedef struct {
    Buffer data;
    Buffer cuts;
    PyObject *segments; /* a list of those that are full */
} Segments;

static int
add_cut(Segments *to)
{
    if (buffer_reserve(&to->cuts, 8) < 0) {
        return -1;
    }
    uint64_t number = (uint64_t)to->data.size;
    memcpy(to->cuts.data + to->cuts.size, &number, 8);
    to->cuts.size += 8;
    return 0;
}

/* What was packed becomes a segment, and the buffers are empty again. */
static int
flush(Segments *to)
{
    PyObject *pair = Py_BuildValue(
        "y#y#", to->data.data, to->data.size, to->cuts.data, to->cuts.size);
    to->data.size = 0;
    to->cuts.size = 0;
    int failed = pair == NULL || PyList_Append(to->segments, pair) < 0;
    Py_XDECREF(pair);
    return failed ? -1 : 0;
}

/* Packs what follows the elements that are the same as those of `base`; counts these. */
static Outcome
pack_after(Segments *to, PyObject *value, int tuples, Cursor base, Py_ssize_t most,
           Py_ssize_t *first)
{
    int is_list = PyList_CheckExact(value), is_same = 1;
    Py_ssize_t count = is_list ? PyList_GET_SIZE(value) : PyDict_GET_SIZE(value), position = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        Outcome outcome = PACKED;
        PyObject *key, *member;
        /* A segment is a new tuple, which may start the garbage collector, and that any code. */
        if (count != (is_list ? PyList_GET_SIZE(value) : PyDict_GET_SIZE(value))) {
            return NOT_PLAIN;
        }
        if (is_list) {
            member = PyList_GET_ITEM(value, n);
        }
        else if (PyDict_Next(value, &position, &key, &member)) {
            outcome = pack_key(&to->data, key);
        }
        else {
            return NOT_PLAIN;
        }
        if (outcome == PACKED) {
            outcome = pack_value(&to->data, member, 1, tuples);
        }
        if (outcome != PACKED) {
            return outcome;
        }
        const char *old;
        uint64_t size;
        if (is_same && n < most && forward(&base, &old, &size)
            && size == (uint64_t)to->data.size && memcmp(old, to->data.data, (size_t)size) == 0) {
            to->data.size = 0;
            *first = n + 1;
            continue;
        }
        if (to->cuts.size == 0) {
            is_same = 0;
            uint64_t start = 0;
            memcpy(to->cuts.data, &start, 8);
            to->cuts.size = 8;
        }
        if (add_cut(to) < 0 || (to->data.size >= SEGMENT && flush(to) < 0)) {
            return FAILED;
        }
    }
    return to->cuts.size > 0 && flush(to) < 0 ? FAILED : PACKED;
}

/* after(value, tuples, base): a list or dict against the segments of another version. How many
   elements are the same from the start, how many of the others from the end, and the segments of
   all but the first of these. None if it is not plain. */
PyObject *
native_after(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    int tuples = 0;
    if (count != 3) {
        return PyErr_Format(PyExc_TypeError, "after takes 3 arguments, not %zd", count);
    }
    Py_ssize_t old = count_all(args[2]);
    if (old < 0 || !take_tuples("after", args, 2, &tuples)) {
        return NULL;
    }
    if (!PyList_CheckExact(args[0]) && !PyDict_CheckExact(args[0])) {
        Py_RETURN_NONE;
    }
    Segments to;
    to.segments = PyList_New(0);
    if (to.segments == NULL) {
        return NULL;
    }
    buffer_start(&to.data);
    buffer_start(&to.cuts);
    Py_ssize_t first = 0;
    Cursor base = {args[2], 0, 0};
    Outcome outcome = pack_after(&to, args[0], tuples, base, old, &first);
    buffer_drop(&to.data);
    buffer_drop(&to.cuts);
    PyObject *found = NULL, *segments = NULL;
    if (outcome == NOT_PLAIN) {
        found = Py_NewRef(Py_None);
    }
    else if (outcome == PACKED && (segments = PyList_AsTuple(to.segments)) != NULL) {
        Py_ssize_t new = count_all(segments), most = old - first < new ? old - first : new;
        found = Py_BuildValue("nnO", first, same_from_end(args[2], segments, most), segments);
        Py_DECREF(segments);
    }
    Py_DECREF(to.segments);
    return found;
}

/* -- cutting what was packed before */

/* Steps over the next `count` values; NULL if the data ends before, or is no msgpack. */
const unsigned char *
skip(const unsigned char *at, const unsigned char *end, uint64_t count)
{
    while (count > 0) {
        if (at >= end) {
            return NULL;
        }
        count -= 1;
        unsigned char head = *at++;
        uint64_t size = 0;   /* bytes of the body */
        int width = 0;       /* bytes of its length, which stands before it */
        uint64_t members = 0;
        if (head < 0x80 || head >= 0xe0 || head == 0xc0 || head == 0xc2 || head == 0xc3) {
            continue;
        }
        if (head < 0x90) {
            count += 2 * (uint64_t)(head & 0x0f);
            continue;
        }
        if (head < 0xa0) {
            count += head & 0x0f;
            continue;
        }
        if (head < 0xc0) {
            size = head & 0x1f;
        }
        else if (head == 0xc1) {
            return NULL;
        }
        else if (head <= 0xc6) {
            width = 1 << (head - 0xc4);
        }
        else if (head <= 0xc9) {
            width = 1 << (head - 0xc7);
            size = 1;
        }
        else if (head <= 0xcb) {
            size = head == 0xca ? 4 : 8;
        }
        else if (head <= 0xd3) {
            size = UINT64_C(1) << ((head - 0xcc) & 3);
        }
        else if (head <= 0xd8) {
            size = 1 + (UINT64_C(1) << (head - 0xd4));
        }
        else if (head <= 0xdb) {
            width = 1 << (head - 0xd9);
        }
        else {
            width = 2 << (head & 1);
            members = head < 0xde ? 1 : 2;
        }
        if (width > end - at) {
            return NULL;
        }
        uint64_t length = 0;
        for (int n = 0; n < width; n++) {
            length = length << 8 | *at++;
        }
        if (members > 0) {
            count += members * length;
        }
        else {
            size += length;
            if (size > (uint64_t)(end - at)) {
                return NULL;
            }
            at += size;
        }
    }
    return at;
}

/* cuts(data): those of a packed list or dict; None if it is none, or does not end with it. */
PyObject *
native_cuts(PyObject *Py_UNUSED(module), PyObject *data)
{
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "cuts takes bytes");
        return NULL;
    }
    const unsigned char *start = (const unsigned char *)PyBytes_AS_STRING(data);
    const unsigned char *end = start + PyBytes_GET_SIZE(data), *at = start + 1;
    if (start == end) {
        Py_RETURN_NONE;
    }
    uint64_t count = *start & 0x0f;
    unsigned char head = *start;
    if (head >= 0xdc && head <= 0xdf) {
        int width = 2 << (head & 1);
        if (end - at < width) {
            Py_RETURN_NONE;
        }
        count = 0;
        for (int n = 0; n < width; n++) {
            count = count << 8 | *at++;
        }
    }
    else if (head < 0x80 || head >= 0xa0) {
        Py_RETURN_NONE;
    }
    if (count > (uint64_t)(end - at)) { /* so there is room for eight times as much */
        Py_RETURN_NONE;
    }
    uint64_t values = head < 0x90 || head >= 0xde ? 2 : 1;
    PyObject *cuts = PyBytes_FromStringAndSize(NULL, 8 * ((Py_ssize_t)count + 1));
    if (cuts == NULL) {
        return NULL;
    }
    set_cut(cuts, 0, at - start);
    for (Py_ssize_t n = 1; n <= (Py_ssize_t)count && at != NULL; n++) {
        at = skip(at, end, values);
        if (at != NULL) {
            set_cut(cuts, n, at - start);
        }
    }
    if (at != end) {
        Py_DECREF(cuts);
        Py_RETURN_NONE;
    }
    return cuts;
}
