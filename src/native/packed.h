/* Elements of a list or dict, as they are kept between versions of it: see packed.c. */

#ifndef MILEPOST_PACKED_H
#define MILEPOST_PACKED_H

#include "leaves.h"

typedef struct {
    PyObject *data;
    PyObject *cuts;       /* bytes: where the first element begins, and where each one ends */
    Py_ssize_t count;     /* of its elements; there may be more cuts */
    Py_ssize_t before;    /* elements in the segments before it */
    Leaves *leaves;       /* of its first elements, or NULL */
} Segment;

/* Never changed once it is made, but leaves may be added. All cuts are in the data, and no segment
   is empty. */
typedef struct {
    PyObject_VAR_HEAD     /* the size is the number of segments */
    Py_ssize_t count;
    Py_ssize_t size;      /* bytes of all elements */
    PyObject *mark;       /* stands for these elements, once another version follows them */
    PyObject *follows;    /* the mark of the version before, and what is the same in both: */
    Py_ssize_t first, last;
    Segment segments[1];
} Packed;

static inline Py_ssize_t
cut_of(const Segment *segment, Py_ssize_t n)
{
    uint64_t cut;
    memcpy(&cut, PyBytes_AS_STRING(segment->cuts) + 8 * n, 8);
    return (Py_ssize_t)cut;
}

static inline void
set_cut(PyObject *cuts, Py_ssize_t n, Py_ssize_t at)
{
    uint64_t number = (uint64_t)at;
    memcpy(PyBytes_AS_STRING(cuts) + 8 * n, &number, 8);
}

static inline Py_ssize_t
size_of(const Segment *segment)
{
    return cut_of(segment, segment->count) - cut_of(segment, 0);
}

/* Elements one after the other; whoever asks for one has counted that it is there. */
typedef struct {
    const Segment *segment;
    Py_ssize_t n;
} Cursor;

static inline const char *
element_of(const Segment *segment, Py_ssize_t n, Py_ssize_t *size)
{
    Py_ssize_t at = cut_of(segment, n);
    *size = cut_of(segment, n + 1) - at;
    return PyBytes_AS_STRING(segment->data) + at;
}

static inline const char *
next_element(Cursor *cursor, Py_ssize_t *size)
{
    if (cursor->n == cursor->segment->count) {
        cursor->segment += 1;
        cursor->n = 0;
    }
    return element_of(cursor->segment, cursor->n++, size);
}

PyTypeObject *packed_type(PyObject *module);
/* Takes the segments over, also if it fails. */
Packed *packed_new(PyTypeObject *type, Segment *segments, Py_ssize_t count);
Py_ssize_t packed_same_end(const Packed *one, const Packed *other, Py_ssize_t most);
void segment_drop(Segment *segment);
/* Head and elements as Python gets them, NULL if one of them is. Takes `packed` over. */
PyObject *behind_head(PyObject *head, Packed *packed);

extern PyType_Spec packed_spec;

#endif
