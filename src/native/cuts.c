/* The elements of a list or dict that was packed before. */

#include "packed.h"

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

/* cut_up(data): head and elements of a packed list or dict; None if it is none, or does not end
   with it. */
PyObject *
native_cut_up(PyObject *module, PyObject *data)
{
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "cut_up takes bytes");
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
    int is_list = head >= 0x90 && head < 0xde;
    PyObject *cuts = PyBytes_FromStringAndSize(NULL, 8 * ((Py_ssize_t)count + 1));
    if (cuts == NULL) {
        return NULL;
    }
    set_cut(cuts, 0, at - start);
    for (Py_ssize_t n = 1; n <= (Py_ssize_t)count && at != NULL; n++) {
        at = skip(at, end, is_list ? 1 : 2);
        if (at != NULL) {
            set_cut(cuts, n, at - start);
        }
    }
    if (at != end) {
        Py_DECREF(cuts);
        Py_RETURN_NONE;
    }
    Segment segment = {Py_NewRef(data), cuts, (Py_ssize_t)count, 0};
    Py_ssize_t before = cut_of(&segment, 0);
    if (count == 0) {
        segment_drop(&segment);
    }
    return behind_head((const char *)start, before,
                       packed_new(packed_type(module), &segment, count > 0));
}
