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

const unsigned char *
read_head(const unsigned char *at, const unsigned char *end, Py_ssize_t bytes, int *is_list,
          Py_ssize_t *count)
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
    return number > (uint64_t)bytes ? NULL : at;
}

/* A piece that was given: bytes, or a view of some. */
typedef struct {
    PyObject *bytes;            /* borrowed */
    const unsigned char *start; /* of the bytes */
    const unsigned char *at;    /* what is still to be read */
    const unsigned char *end;
} Piece;

static int
take_piece(PyObject *given, Piece *piece)
{
    Py_buffer view;
    if (PyObject_GetBuffer(given, &view, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    piece->bytes = PyMemoryView_Check(given) ? PyMemoryView_GET_BASE(given) : given;
    piece->at = view.buf;
    piece->end = piece->at + view.len;
    PyBuffer_Release(&view); /* bytes stay where they are as long as somebody has them */
    if (piece->bytes == NULL || !PyBytes_CheckExact(piece->bytes)) {
        PyErr_SetString(PyExc_TypeError, "cut_up takes pieces of bytes");
        return -1;
    }
    piece->start = (const unsigned char *)PyBytes_AS_STRING(piece->bytes);
    return 0;
}

/* Cuts a piece that holds at most `most` elements; one that holds none is not a segment. */
static Outcome
cut_piece(const Piece *piece, int is_list, Py_ssize_t most, Segment *segment)
{
    Buffer cuts;
    buffer_start(&cuts);
    Outcome outcome = PACKED;
    const unsigned char *at = piece->at;
    Py_ssize_t count = 0;
    while (outcome == PACKED) {
        uint64_t cut = (uint64_t)(at - piece->start);
        if (buffer_reserve(&cuts, 8) < 0) {
            outcome = FAILED;
            break;
        }
        memcpy(cuts.data + cuts.size, &cut, 8);
        cuts.size += 8;
        if (at == piece->end) {
            break;
        }
        at = count == most ? NULL : skip(at, piece->end, is_list ? 1 : 2);
        count += 1;
        outcome = at == NULL ? NOT_PLAIN : PACKED;
    }
    if (outcome == PACKED && count > 0) {
        PyObject *bytes = PyBytes_FromStringAndSize(cuts.data, cuts.size);
        *segment = (Segment){Py_NewRef(piece->bytes), bytes, count, 0, NULL};
        outcome = bytes == NULL ? FAILED : PACKED;
    }
    buffer_drop(&cuts);
    return outcome;
}

/* The segments of all pieces but for their head, and how many these are. */
static Outcome
cut_pieces(PyObject *const *given, Py_ssize_t number, Segment *segments, Py_ssize_t *made,
           PyObject **head)
{
    Piece piece;
    Py_ssize_t size = 0, count = 0;
    for (Py_ssize_t n = 0; n < number; n++) {
        if (take_piece(given[n], &piece) < 0) {
            return FAILED;
        }
        size += piece.end - piece.at;
    }
    int is_list = 0;
    Outcome outcome = number > 0 ? PACKED : NOT_PLAIN;
    for (Py_ssize_t n = 0; n < number && outcome == PACKED; n++) {
        take_piece(given[n], &piece);
        if (n == 0) {
            const char *start = (const char *)piece.at;
            piece.at = read_head(piece.at, piece.end, size, &is_list, &count);
            if (piece.at == NULL) {
                return NOT_PLAIN;
            }
            *head = PyBytes_FromStringAndSize(start, (const char *)piece.at - start);
            if (*head == NULL) {
                return FAILED;
            }
        }
        outcome = cut_piece(&piece, is_list, count, &segments[*made]);
        count -= segments[*made].count;
        *made += segments[*made].data != NULL;
    }
    return outcome == PACKED && count > 0 ? NOT_PLAIN : outcome;
}

/* cut_up(pieces): head and elements of a packed list or dict; None if it is none, or one of them is
   in two pieces. */
PyObject *
native_cut_up(PyObject *module, PyObject *given)
{
    PyObject *pieces = PySequence_Fast(given, "cut_up takes pieces of bytes");
    if (pieces == NULL) {
        return NULL;
    }
    Py_ssize_t number = PySequence_Fast_GET_SIZE(pieces), made = 0;
    Segment *segments = PyMem_Calloc((size_t)number + 1, sizeof *segments);
    PyObject *head = NULL, *found = NULL;
    Outcome outcome = FAILED;
    if (segments == NULL) {
        PyErr_NoMemory();
    }
    else {
        outcome = cut_pieces(PySequence_Fast_ITEMS(pieces), number, segments, &made, &head);
    }
    if (outcome == PACKED) {
        found = behind_head(head, packed_new(packed_type(module), segments, made));
    }
    else {
        while (made > 0) {
            segment_drop(&segments[--made]);
        }
        found = outcome == NOT_PLAIN ? Py_NewRef(Py_None) : NULL;
    }
    Py_XDECREF(head);
    PyMem_Free(segments);
    Py_DECREF(pieces);
    return found;
}
