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
