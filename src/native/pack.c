/* Plain values to msgpack, in one pass.

   Only exact built-in types, so no Python code runs and nothing can change meanwhile. Whatever
   else there is, the whole value is left to the caller: NOT_PLAIN. */

#include "native.h"

enum {
    LONG_TEXT = 1 << 16,
    LONGEST_HEAD = 6,
};

/* -- bytes that grow */

void
buffer_start(Buffer *buffer)
{
    buffer->data = buffer->small;
    buffer->size = 0;
    buffer->room = SMALL;
    buffer->bytes = NULL;
}

int
buffer_grow(Buffer *buffer, Py_ssize_t more)
{
    if (more > PY_SSIZE_T_MAX / 4 - buffer->size) {
        PyErr_NoMemory();
        return -1;
    }
    /* Not more for one large text than it takes: it may be all that there is. */
    Py_ssize_t size = buffer->size;
    Py_ssize_t spare = size < QUICK ? 3 * size : size < LARGE ? size : size / 4;
    Py_ssize_t room = size + more + (spare < SMALL ? SMALL : spare);
    if (buffer->bytes == NULL) {
        buffer->bytes = PyBytes_FromStringAndSize(NULL, room);
        if (buffer->bytes != NULL) {
            memcpy(PyBytes_AS_STRING(buffer->bytes), buffer->data, (size_t)buffer->size);
        }
    }
    else {
        _PyBytes_Resize(&buffer->bytes, room); /* leaves NULL if it fails */
    }
    if (buffer->bytes == NULL) {
        return -1;
    }
    buffer->data = PyBytes_AS_STRING(buffer->bytes);
    buffer->room = room;
    return 0;
}

/* The bytes as an object; the buffer is used up. */
PyObject *
buffer_finish(Buffer *buffer)
{
    if (buffer->bytes == NULL) {
        return PyBytes_FromStringAndSize(buffer->data, buffer->size);
    }
    _PyBytes_Resize(&buffer->bytes, buffer->size);
    return buffer->bytes;
}

void
buffer_drop(Buffer *buffer)
{
    Py_CLEAR(buffer->bytes);
}

/* -- values */

static inline char *
put(char *at, uint64_t number, int width)
{
    for (int shift = 8 * (width - 1); shift >= 0; shift -= 8) {
        *at++ = (char)(number >> shift);
    }
    return at;
}

static inline Outcome
append(Buffer *to, unsigned char head, uint64_t number, int width)
{
    if (buffer_reserve(to, 9) < 0) {
        return FAILED;
    }
    char *at = to->data + to->size;
    *at++ = (char)head;
    to->size = put(at, number, width) - to->data;
    return PACKED;
}

static Outcome
pack_int(Buffer *to, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow < 0) {
        return NOT_PLAIN;
    }
    if (overflow > 0) {
        unsigned long long large = PyLong_AsUnsignedLongLong(value);
        if (large == (unsigned long long)-1 && PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_OverflowError)) {
                return FAILED;
            }
            PyErr_Clear();
            return NOT_PLAIN;
        }
        return append(to, 0xcf, large, 8);
    }
    if (number == -1 && PyErr_Occurred()) {
        return FAILED;
    }
    uint64_t bits = (uint64_t)number;
    if (number >= 0) {
        return number < 0x80          ? append(to, (unsigned char)number, 0, 0)
               : number <= UINT8_MAX  ? append(to, 0xcc, bits, 1)
               : number <= UINT16_MAX ? append(to, 0xcd, bits, 2)
               : number <= UINT32_MAX ? append(to, 0xce, bits, 4)
                                      : append(to, 0xcf, bits, 8);
    }
    return number >= -32         ? append(to, (unsigned char)number, 0, 0)
           : number >= INT8_MIN  ? append(to, 0xd0, bits, 1)
           : number >= INT16_MIN ? append(to, 0xd1, bits, 2)
           : number >= INT32_MIN ? append(to, 0xd2, bits, 4)
                                 : append(to, 0xd3, bits, 8);
}

static Outcome
pack_float(Buffer *to, PyObject *value)
{
    double number = PyFloat_AS_DOUBLE(value);
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return append(to, 0xcb, bits, 8);
}

/* Text or bytes behind their head. `few` is 0 if there is no head with the length in it; the
   heads with a length of 1, 2 and 4 bytes follow each other. */
static inline Outcome
append_run(Buffer *to, const char *data, Py_ssize_t size, Py_ssize_t few, int short_head, int head)
{
    if ((uint64_t)size > UINT32_MAX) {
        return NOT_PLAIN;
    }
    if (buffer_reserve(to, size + 5) < 0) {
        return FAILED;
    }
    char *at = to->data + to->size;
    uint64_t length = (uint64_t)size;
    if (size < few) {
        *at++ = (char)(short_head | size);
    }
    else if (size <= UINT8_MAX) {
        *at++ = (char)head;
        at = put(at, length, 1);
    }
    else if (size <= UINT16_MAX) {
        *at++ = (char)(head + 1);
        at = put(at, length, 2);
    }
    else {
        *at++ = (char)(head + 2);
        at = put(at, length, 4);
    }
    memcpy(at, data, (size_t)size);
    to->size = at + size - to->data;
    return PACKED;
}

static inline Outcome
append_text(Buffer *to, const char *data, Py_ssize_t size)
{
    return append_run(to, data, size, 32, 0xa0, 0xd9);
}

/* After an exception of the codec: a lone surrogate is not for us, anything else is an error. */
static Outcome
not_text(void)
{
    if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        return FAILED;
    }
    PyErr_Clear();
    return NOT_PLAIN;
}

static Outcome
pack_text(Buffer *to, PyObject *value)
{
    if (PyUnicode_IS_COMPACT_ASCII(value)) {
        return append_text(to, PyUnicode_DATA(value), PyUnicode_GET_LENGTH(value));
    }
    if (PyUnicode_GET_LENGTH(value) < LONG_TEXT) {
        /* The string keeps its UTF-8, as it does under ormsgpack: a list that is encoded after
           each step would otherwise have all of its text encoded again. */
        Py_ssize_t size;
        const char *data = PyUnicode_AsUTF8AndSize(value, &size);
        return data == NULL ? not_text() : append_text(to, data, size);
    }
    /* Not one of this size: it would take its room twice for as long as it lives. */
    PyObject *encoded = PyUnicode_AsUTF8String(value);
    if (encoded == NULL) {
        return not_text();
    }
    Outcome outcome = append_text(to, PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded));
    Py_DECREF(encoded);
    return outcome;
}

static Outcome
pack_bytes(Buffer *to, PyObject *value)
{
    return append_run(to, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), 0, 0, 0xc4);
}

Outcome
pack_count(Buffer *to, Py_ssize_t count, int short_head, int head)
{
    if ((uint64_t)count > UINT32_MAX) {
        return NOT_PLAIN;
    }
    uint64_t number = (uint64_t)count;
    return count < 16             ? append(to, (unsigned char)(short_head | count), 0, 0)
           : count <= UINT16_MAX ? append(to, (unsigned char)head, number, 2)
                                 : append(to, (unsigned char)(head + 1), number, 4);
}

static Outcome
pack_members(Buffer *to, PyObject *const *members, Py_ssize_t count, int lists, int tuples)
{
    if (lists > MOST_LISTS_WRITTEN) {
        return NOT_PLAIN;
    }
    Outcome outcome = pack_count(to, count, 0x90, 0xdc);
    for (Py_ssize_t n = 0; n < count && outcome == PACKED; n++) {
        outcome = pack_value(to, members[n], lists, tuples);
    }
    return outcome;
}

/* A key that msgpack gives back as it was. */
Outcome
pack_key(Buffer *to, PyObject *key)
{
    PyTypeObject *type = Py_TYPE(key);
    if (type == &PyUnicode_Type) {
        return pack_text(to, key);
    }
    if (type == &PyList_Type || type == &PyDict_Type || type == &PyTuple_Type) {
        return NOT_PLAIN;
    }
    return pack_value(to, key, 0, 0);
}

static Outcome
pack_dict(Buffer *to, PyObject *value, int lists, int tuples)
{
    if (lists > MOST_LISTS_WRITTEN) {
        return NOT_PLAIN;
    }
    Outcome outcome = pack_count(to, PyDict_GET_SIZE(value), 0x80, 0xde);
    Py_ssize_t position = 0;
    PyObject *key, *member;
    while (outcome == PACKED && PyDict_Next(value, &position, &key, &member)) {
        outcome = pack_key(to, key);
        if (outcome == PACKED) {
            outcome = pack_value(to, member, lists, tuples);
        }
    }
    return outcome;
}

/* An extension. How long its head is depends on how long the payload turns out to be, so room is
   left for the longest. */
static Outcome
begin_extension(Buffer *to)
{
    if (buffer_reserve(to, LONGEST_HEAD) < 0) {
        return FAILED;
    }
    to->size += LONGEST_HEAD;
    return PACKED;
}

static Outcome
end_extension(Buffer *to, Py_ssize_t start, int code)
{
    char *at = to->data + start;
    const char *payload = at + LONGEST_HEAD;
    Py_ssize_t size = to->size - start - LONGEST_HEAD;
    uint64_t length = (uint64_t)size;
    if (length > UINT32_MAX) {
        return NOT_PLAIN;
    }
    switch (size) {
    case 1: *at++ = (char)0xd4; break;
    case 2: *at++ = (char)0xd5; break;
    case 4: *at++ = (char)0xd6; break;
    case 8: *at++ = (char)0xd7; break;
    case 16: *at++ = (char)0xd8; break;
    default:
        if (size <= UINT8_MAX) {
            *at++ = (char)0xc7;
            at = put(at, length, 1);
        }
        else if (size <= UINT16_MAX) {
            *at++ = (char)0xc8;
            at = put(at, length, 2);
        }
        else {
            *at++ = (char)0xc9;
            at = put(at, length, 4);
        }
    }
    *at++ = (char)code;
    memmove(at, payload, (size_t)size);
    to->size = at + size - to->data;
    return PACKED;
}

/* A tuple is an extension around a list of its members. */
static Outcome
pack_tuple(Buffer *to, PyObject *value, int tuples)
{
    Py_ssize_t start = to->size;
    Outcome outcome = tuples == 0 ? NOT_PLAIN : begin_extension(to);
    if (outcome == PACKED) {
        outcome = pack_members(
            to, &PyTuple_GET_ITEM(value, 0), PyTuple_GET_SIZE(value), 1, tuples - 1);
    }
    return outcome == PACKED ? end_extension(to, start, CODE_OF_TUPLE) : outcome;
}

/* The bytes that a model in brief form begins with; NULL if it is not usual, or has failed. */
static PyObject *
begin_of_model(PyObject *form, PyObject *given, PyObject *extra, PyObject *private)
{
    PyObject *takes_extra = PyTuple_GET_ITEM(form, 1), *begins = PyTuple_GET_ITEM(form, 2);
    if (private != Py_None || !PyAnySet_CheckExact(given)) {
        return NULL;
    }
    if (takes_extra == Py_True ? !PyDict_CheckExact(extra) || PyDict_GET_SIZE(extra) != 0
                               : extra != Py_None) {
        return NULL;
    }
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(begins); n++) {
        PyObject *begin = PyList_GET_ITEM(begins, n);
        int same = PyObject_RichCompareBool(given, PyTuple_GET_ITEM(begin, 0), Py_EQ);
        if (same != 0) {
            return same < 0 ? NULL : PyTuple_GET_ITEM(begin, 1);
        }
    }
    return NULL;
}

/* A pydantic model in brief form: what it begins with, and the dict of its fields, in an extension.
   `form` is (names of its slots, whether it takes extra fields, [(fields given, beginning)], how it
   is copied, names of its fields). */
Outcome
pack_model(Buffer *to, PyObject *model, PyObject *form, int tuples)
{
    PyObject *slots[4] = {NULL, NULL, NULL, NULL}; /* given, extra, private, fields */
    PyObject *names = PyTuple_GET_ITEM(form, 0), *begin = NULL;
    Outcome outcome = NOT_PLAIN;
    Py_ssize_t start = to->size;
    int found = 0;
    while (found < 4) {
        slots[found] = PyObject_GetAttr(model, PyTuple_GET_ITEM(names, found));
        if (slots[found] == NULL) {
            break;
        }
        found += 1;
    }
    if (found == 4 && PyDict_CheckExact(slots[3])
        && has_fields(slots[3], PyTuple_GET_ITEM(form, 4))) {
        begin = begin_of_model(form, slots[0], slots[1], slots[2]);
    }
    if (begin != NULL) {
        outcome = begin_extension(to);
        Py_ssize_t size = PyBytes_GET_SIZE(begin);
        if (outcome == PACKED && buffer_reserve(to, size) < 0) {
            outcome = FAILED;
        }
        if (outcome == PACKED) {
            memcpy(to->data + to->size, PyBytes_AS_STRING(begin), (size_t)size);
            to->size += size;
            outcome = pack_value(to, slots[3], 0, tuples > 0 ? tuples - 1 : 0);
        }
        if (outcome == PACKED) {
            outcome = end_extension(to, start, CODE_OF_RECORD);
        }
    }
    else if (PyErr_Occurred()) {
        /* The slow path explains what is wrong with the model; an interrupt is not for it. */
        outcome = PyErr_ExceptionMatches(PyExc_Exception) ? NOT_PLAIN : FAILED;
        if (outcome == NOT_PLAIN) {
            PyErr_Clear();
        }
    }
    for (int n = 0; n < found; n++) {
        Py_DECREF(slots[n]);
    }
    return outcome;
}

/* `lists` are around the value; `tuples` may still be inside it. */
Outcome
pack_value(Buffer *to, PyObject *value, int lists, int tuples)
{
    PyTypeObject *type = Py_TYPE(value);
    if (type == &PyUnicode_Type) {
        return pack_text(to, value);
    }
    if (type == &PyLong_Type) {
        return pack_int(to, value);
    }
    if (type == &PyFloat_Type) {
        return pack_float(to, value);
    }
    if (type == &PyList_Type) {
        Py_ssize_t count = PyList_GET_SIZE(value);
        PyObject *const *members = count ? &PyList_GET_ITEM(value, 0) : NULL;
        return pack_members(to, members, count, lists + 1, tuples);
    }
    if (type == &PyDict_Type) {
        return pack_dict(to, value, lists + 1, tuples);
    }
    if (value == Py_None) {
        return append(to, 0xc0, 0, 0);
    }
    if (value == Py_False) {
        return append(to, 0xc2, 0, 0);
    }
    if (value == Py_True) {
        return append(to, 0xc3, 0, 0);
    }
    if (type == &PyTuple_Type) {
        return pack_tuple(to, value, tuples);
    }
    if (type == &PyBytes_Type) {
        return pack_bytes(to, value);
    }
    return NOT_PLAIN;
}

/* The second of two arguments: how many tuples may be inside each other. */
int
take_tuples(const char *name, PyObject *const *args, Py_ssize_t count, int *tuples)
{
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "%s takes 2 arguments, not %zd", name, count);
        return 0;
    }
    long number = PyLong_AsLong(args[1]);
    if (number == -1 && PyErr_Occurred()) {
        return 0;
    }
    *tuples = number < 0 ? 0 : number > MOST_TUPLES ? MOST_TUPLES : (int)number;
    return 1;
}

/* pack(value, tuples): the bytes of a plain value; None if it is not one. */
PyObject *
native_pack(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    int tuples = 0;
    if (!take_tuples("pack", args, count, &tuples)) {
        return NULL;
    }
    Buffer buffer;
    buffer_start(&buffer);
    Outcome outcome = pack_value(&buffer, args[0], 0, tuples);
    if (outcome == PACKED) {
        return buffer_finish(&buffer);
    }
    buffer_drop(&buffer);
    if (outcome == FAILED) {
        return NULL;
    }
    Py_RETURN_NONE;
}
