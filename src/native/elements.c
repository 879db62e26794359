/* Lists and dicts, element by element: each as bytes of its own, so that versions share those of
   elements that have not changed. */

#include "native.h"

/* Steps over the next `count` values; NULL if the data ends before, or is no msgpack. */
static const unsigned char *
skip(const unsigned char *at, const unsigned char *end, uint64_t count)
{
    while (count > 0) {
        if (at >= end) {
            return NULL;
        }
        count -= 1;
        unsigned char head = *at++;
        uint64_t size = 0;   /* bytes of the body */
        int width = 0;       /* bytes of the length, which comes before the body */
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

/* Reads the head of a list or dict; NULL if it is none, or speaks of more elements than there are
   bytes. */
static const unsigned char *
read_head(const unsigned char *at, const unsigned char *end, int *is_list, Py_ssize_t *count)
{
    unsigned char head = at == end ? 0 : *at++;
    uint64_t number = head & 0x0f;
    if (head >= 0xdc && head <= 0xdf) {
        int width = 2 << (head & 1);
        if (end - at < width) {
            return NULL;
        }
        number = 0;
        for (int n = 0; n < width; n++) {
            number = number << 8 | *at++;
        }
    }
    else if (head < 0x80 || head >= 0xa0) {
        return NULL;
    }
    *is_list = head >= 0x90 && head < 0xde;
    *count = (Py_ssize_t)number;
    return number > (uint64_t)(end - at) ? NULL : at;
}

/* cut_up(data): head and elements of a packed list or dict; None if it is none. */
PyObject *
native_cut_up(PyObject *Py_UNUSED(module), PyObject *data)
{
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    const unsigned char *start = view.buf, *end = start + view.len;
    int is_list = 0;
    Py_ssize_t count = 0;
    const unsigned char *at = read_head(start, end, &is_list, &count);
    Py_ssize_t size = at - start;
    PyObject *elements = at == NULL ? NULL : PyList_New(count);
    for (Py_ssize_t n = 0; elements != NULL && n < count; n++) {
        const unsigned char *next = skip(at, end, is_list ? 1 : 2);
        PyObject *element = next == NULL ? NULL : PyBytes_FromStringAndSize((const char *)at, next - at);
        if (element == NULL) {
            Py_CLEAR(elements);
            break;
        }
        PyList_SET_ITEM(elements, n, element);
        at = next;
    }
    if (elements != NULL && at != end) {
        Py_CLEAR(elements);
    }
    PyObject *found = NULL;
    if (elements != NULL) {
        found = Py_BuildValue("y#N", (const char *)start, size, elements);
    }
    PyBuffer_Release(&view);
    return found == NULL && !PyErr_Occurred() ? Py_NewRef(Py_None) : found;
}

/* The element of another version, if it has the same bytes; else new bytes. A large one is taken as
   it is: with a copy it would be there twice. */
static PyObject *
shared(PyObject *base, Py_ssize_t n, Buffer *buffer)
{
    if (base != NULL && n < PyList_GET_SIZE(base)) {
        PyObject *old = PyList_GET_ITEM(base, n);
        if (PyBytes_CheckExact(old) && PyBytes_GET_SIZE(old) == buffer->size
            && memcmp(PyBytes_AS_STRING(old), buffer->data, (size_t)buffer->size) == 0) {
            return Py_NewRef(old);
        }
    }
    if (buffer->size < LARGE) {
        return PyBytes_FromStringAndSize(buffer->data, buffer->size);
    }
    PyObject *taken = buffer_finish(buffer);
    buffer_start(buffer);
    return taken;
}

/* A member of a list that is not plain: a model in brief form, if its class is among `models`. To
   look at it may run Python, as a plain value never does. */
static Outcome
pack_other(Buffer *buffer, PyObject *member, PyObject *models, int tuples)
{
    buffer->size = 0;
    PyObject *form = PyDict_GetItemWithError(models, (PyObject *)Py_TYPE(member));
    if (form == NULL) {
        return PyErr_Occurred() ? FAILED : NOT_PLAIN;
    }
    Py_INCREF(member);
    Py_INCREF(form);
    Outcome outcome = pack_model(buffer, member, form, tuples);
    Py_DECREF(form);
    Py_DECREF(member);
    return outcome;
}

/* What is known of the version before: see `native_elements`. NULL where there is nothing. */
typedef struct {
    PyObject *base;   /* its bytes */
    PyObject *copy;   /* copies of its elements, or of the first ones */
    PyObject *models; /* classes whose instances are packed */
} Before;

/* The bytes of an element that is as it was copied; NULL if that is not known. */
static PyObject *
unchanged(const Before *before, Py_ssize_t n, PyObject *member)
{
    if (before->copy == NULL || before->base == NULL || n >= PyList_GET_SIZE(before->copy)
        || n >= PyList_GET_SIZE(before->base) || !PyBytes_CheckExact(PyList_GET_ITEM(before->base, n))
        || !is_as_copied(PyList_GET_ITEM(before->copy, n), member, before->models)) {
        return NULL;
    }
    return Py_NewRef(PyList_GET_ITEM(before->base, n));
}

/* Keeps a copy of an element; if there can be none of it, there is none of the list. */
static Outcome
keep_copy(Before *before, PyObject *value, Py_ssize_t n, PyObject *member)
{
    PyObject *kept = before->copy, *copy = NULL;
    if (kept == NULL) {
        return PACKED;
    }
    if (n < PyList_GET_SIZE(value) && PyList_GET_ITEM(value, n) == member) {
        copy = copy_of_element(member, before->models);
    }
    int failed;
    if (copy == NULL) {
        before->copy = NULL;
        failed = PyErr_Occurred() ? -1 : PyList_SetSlice(kept, 0, PY_SSIZE_T_MAX, NULL);
    }
    else if (n < PyList_GET_SIZE(kept)) {
        failed = PyList_SetItem(kept, n, Py_NewRef(copy));
    }
    else {
        failed = PyList_Append(kept, copy);
    }
    Py_XDECREF(copy);
    return failed < 0 ? FAILED : PACKED;
}

/* Puts the elements of a value into a list of as many. No garbage is collected meanwhile, so nothing
   can run that changes the value, but for what a model does. */
static Outcome
pack_elements(PyObject *value, int tuples, Before *before, PyObject *elements, Buffer *buffer,
              Py_ssize_t *size)
{
    int is_list = PyList_CheckExact(value);
    Py_ssize_t position = 0;
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(elements); n++) {
        Outcome outcome = PACKED;
        PyObject *key, *member, *element = NULL;
        buffer->size = 0;
        if (is_list) {
            if (n >= PyList_GET_SIZE(value)) {
                return NOT_PLAIN;
            }
            member = PyList_GET_ITEM(value, n);
            element = unchanged(before, n, member);
        }
        else if (PyDict_Next(value, &position, &key, &member)) {
            outcome = pack_key(buffer, key);
        }
        else {
            return NOT_PLAIN;
        }
        if (element == NULL) {
            if (outcome == PACKED) {
                outcome = pack_value(buffer, member, 1, tuples);
            }
            if (outcome == NOT_PLAIN && is_list && before->models != NULL) {
                outcome = pack_other(buffer, member, before->models, tuples);
            }
            if (outcome == PACKED && is_list) {
                outcome = keep_copy(before, value, n, member);
            }
            if (outcome != PACKED) {
                return outcome;
            }
            element = shared(before->base, n, buffer);
            if (element == NULL) {
                return FAILED;
            }
        }
        *size += PyBytes_GET_SIZE(element);
        PyList_SET_ITEM(elements, n, element);
    }
    buffer->size = 0;
    Outcome outcome = pack_count(buffer, PyList_GET_SIZE(elements), is_list ? 0x90 : 0x80,
                                 is_list ? 0xdc : 0xde);
    *size += buffer->size;
    if (outcome == PACKED && before->copy != NULL
        && PyList_SetSlice(before->copy, PyList_GET_SIZE(elements), PY_SSIZE_T_MAX, NULL) < 0) {
        outcome = FAILED;
    }
    return outcome;
}

/* pack_elements(value, tuples, base, models, copy): head and elements of a list or dict, and how
   many bytes they are; None if it is not plain. An element that a list `base` has at the same place
   is that object. A list `copy` has copies of the elements of `base`, and of these ones afterwards,
   or nothing, if there can be no copies. */
PyObject *
native_elements(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    int tuples = 0;
    if (count != 5) {
        return PyErr_Format(PyExc_TypeError, "pack_elements takes 5 arguments, not %zd", count);
    }
    if (!take_tuples("pack_elements", args, 2, &tuples)) {
        return NULL;
    }
    PyObject *value = args[0];
    Before before = {
        .base = PyList_CheckExact(args[2]) ? args[2] : NULL,
        .models = PyDict_CheckExact(args[3]) ? args[3] : NULL,
        .copy = PyList_CheckExact(args[4]) && PyList_CheckExact(value) ? args[4] : NULL,
    };
    if (!PyList_CheckExact(value) && !PyDict_CheckExact(value)) {
        Py_RETURN_NONE;
    }
    int collects = PyGC_Disable();
    PyObject *elements = PyList_New(PyObject_Size(value)), *found = NULL;
    Buffer buffer;
    buffer_start(&buffer);
    Py_ssize_t size = 0;
    Outcome outcome = FAILED;
    if (elements != NULL) {
        outcome = pack_elements(value, tuples, &before, elements, &buffer, &size);
    }
    if (collects) {
        PyGC_Enable();
    }
    if (outcome == PACKED) {
        found = Py_BuildValue("y#Nn", buffer.data, buffer.size, elements, size);
    }
    else {
        Py_XDECREF(elements);
        found = outcome == NOT_PLAIN ? Py_NewRef(Py_None) : NULL;
    }
    buffer_drop(&buffer);
    return found;
}
