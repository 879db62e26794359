/* The elements of a list or dict, packed: a sequence of bytes.

   They come in segments: bytes, and cuts in them. Cuts are numbers of eight bytes in the machine's
   order. Versions of a value share segments. A version knows how much it took over from the one
   before it, so that nobody has to compare them again; it does not keep that one alive. */

#include "packed.h"

#include <structmember.h>

void
segment_drop(Segment *segment)
{
    Py_CLEAR(segment->data);
    Py_CLEAR(segment->cuts);
    leaves_drop(segment->leaves);
    segment->leaves = NULL;
}

Packed *
packed_new(PyTypeObject *type, Segment *segments, Py_ssize_t count)
{
    Packed *packed = (Packed *)type->tp_alloc(type, count);
    for (Py_ssize_t n = 0; n < count; n++) {
        if (packed == NULL) {
            segment_drop(&segments[n]);
            continue;
        }
        segments[n].before = packed->count;
        packed->count += segments[n].count;
        packed->size += size_of(&segments[n]);
        packed->segments[n] = segments[n];
    }
    return packed;
}

static void
packed_free(PyObject *self)
{
    Packed *packed = (Packed *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t n = 0; n < Py_SIZE(self); n++) {
        segment_drop(&packed->segments[n]);
    }
    Py_XDECREF(packed->mark);
    Py_XDECREF(packed->follows);
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject *
behind_head(PyObject *head, Packed *packed)
{
    PyObject *pair = head == NULL || packed == NULL ? NULL : PyTuple_Pack(2, head, packed);
    Py_XDECREF(packed);
    return pair;
}

/* -- places in it */

/* The segment that an element is in. */
static const Segment *
segment_of(const Packed *packed, Py_ssize_t at)
{
    Py_ssize_t low = 0, high = Py_SIZE(packed) - 1;
    while (low < high) {
        Py_ssize_t middle = (low + high + 1) / 2;
        if (packed->segments[middle].before <= at) {
            low = middle;
        }
        else {
            high = middle - 1;
        }
    }
    return &packed->segments[low];
}

/* Elements of one segment, which are in one piece. */
typedef struct {
    const Segment *segment;
    Py_ssize_t first, last; /* up to this one, without it */
    Py_ssize_t from, size;  /* bytes */
} Part;

/* The part of the elements up to `stop` that begins with `start`, which is before that. */
static Part
part_at(const Packed *packed, Py_ssize_t start, Py_ssize_t stop)
{
    Part part = {.segment = segment_of(packed, start)};
    const Segment *segment = part.segment;
    part.first = start - segment->before;
    part.last = stop - segment->before;
    if (part.last > segment->count) {
        part.last = segment->count;
    }
    part.from = cut_of(segment, part.first);
    part.size = cut_of(segment, part.last) - part.from;
    return part;
}

static inline Py_ssize_t
end_of(const Part *part)
{
    return part->segment->before + part->last;
}

static Py_ssize_t
span(const Packed *packed, Py_ssize_t start, Py_ssize_t stop)
{
    if (start == 0 && stop == packed->count) {
        return packed->size;
    }
    Py_ssize_t size = 0;
    while (start < stop) {
        Part part = part_at(packed, start, stop);
        size += part.size;
        start = end_of(&part);
    }
    return size;
}

/* Arguments that say from where to where; all elements, if they are left out. */
static int
take_range(const char *name, const Packed *packed, PyObject *const *args, Py_ssize_t count,
           Py_ssize_t *start, Py_ssize_t *stop)
{
    *start = 0;
    *stop = packed->count;
    if (count > 2) {
        PyErr_Format(PyExc_TypeError, "%s takes a start and a stop", name);
        return 0;
    }
    Py_ssize_t *const found[] = {start, stop};
    for (Py_ssize_t n = 0; n < count; n++) {
        Py_ssize_t number = PyNumber_AsSsize_t(args[n], NULL); /* what is too large is clipped */
        if (number == -1 && PyErr_Occurred()) {
            return 0;
        }
        *found[n] = number < 0 ? 0 : number < packed->count ? number : packed->count;
    }
    if (*start > *stop) {
        *start = *stop;
    }
    return 1;
}

/* -- as a sequence */

static PyObject *
one_of(const Packed *packed, Py_ssize_t at)
{
    const Segment *segment = segment_of(packed, at);
    Py_ssize_t size;
    const char *data = element_of(segment, at - segment->before, &size);
    return PyBytes_FromStringAndSize(data, size);
}

static Py_ssize_t
packed_count(PyObject *self)
{
    return ((Packed *)self)->count;
}

static PyObject *
packed_item(PyObject *self, Py_ssize_t at)
{
    const Packed *packed = (Packed *)self;
    if (at < 0 || at >= packed->count) {
        PyErr_SetString(PyExc_IndexError, "there is no such element");
        return NULL;
    }
    return one_of(packed, at);
}

/* Some elements, each by itself. */
static PyObject *
listed(const Packed *packed, Py_ssize_t start, Py_ssize_t step, Py_ssize_t count)
{
    PyObject *found = PyList_New(count);
    for (Py_ssize_t n = 0; found != NULL && n < count; n++) {
        PyObject *element = one_of(packed, start + n * step);
        if (element == NULL) {
            Py_CLEAR(found);
        }
        else {
            PyList_SET_ITEM(found, n, element);
        }
    }
    return found;
}

static PyObject *
packed_subscript(PyObject *self, PyObject *at)
{
    const Packed *packed = (Packed *)self;
    if (!PySlice_Check(at)) {
        Py_ssize_t n = PyNumber_AsSsize_t(at, PyExc_IndexError);
        if (n == -1 && PyErr_Occurred()) {
            return NULL;
        }
        return packed_item(self, n < 0 ? n + packed->count : n);
    }
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(at, &start, &stop, &step) < 0) {
        return NULL;
    }
    Py_ssize_t count = PySlice_AdjustIndices(packed->count, &start, &stop, step);
    return listed(packed, start, step, count);
}

static int
is_same(Cursor *one, Cursor *other)
{
    Py_ssize_t size, other_size;
    const char *left = next_element(one, &size), *right = next_element(other, &other_size);
    return size == other_size && memcmp(left, right, (size_t)size) == 0;
}

static Py_ssize_t
same_start(const Packed *one, const Packed *other)
{
    Py_ssize_t most = one->count < other->count ? one->count : other->count, found = 0;
    Cursor left = {one->segments, 0}, right = {other->segments, 0};
    while (found < most && is_same(&left, &right)) {
        found++;
    }
    return found;
}

/* How many of the last `most` elements are the same. */
Py_ssize_t
packed_same_end(const Packed *one, const Packed *other, Py_ssize_t most)
{
    for (Py_ssize_t found = 0; found < most; found++) {
        Py_ssize_t left = one->count - 1 - found, right = other->count - 1 - found;
        const Segment *here = segment_of(one, left), *there = segment_of(other, right);
        Cursor mine = {here, left - here->before}, theirs = {there, right - there->before};
        if (!is_same(&mine, &theirs)) {
            return found;
        }
    }
    return most;
}

static PyObject *
packed_compare(PyObject *self, PyObject *other, int how)
{
    const Packed *packed = (Packed *)self;
    if (how != Py_EQ && how != Py_NE) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    if (Py_TYPE(other) == Py_TYPE(self)) {
        const Packed *with = (Packed *)other;
        int same = packed->count == with->count && packed->size == with->size
                   && same_start(packed, with) == packed->count;
        return PyBool_FromLong(same == (how == Py_EQ));
    }
    if (!PyList_Check(other)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *mine = listed(packed, 0, 1, packed->count);
    PyObject *found = mine == NULL ? NULL : PyObject_RichCompare(mine, other, how);
    Py_XDECREF(mine);
    return found;
}

/* -- methods */

/* span(start, stop): how many bytes these elements take. */
static PyObject *
packed_span(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const Packed *packed = (Packed *)self;
    Py_ssize_t start, stop;
    if (!take_range("span", packed, args, count, &start, &stop)) {
        return NULL;
    }
    return PyLong_FromSsize_t(span(packed, start, stop));
}

static PyObject *
piece(const Part *part)
{
    PyObject *data = part->segment->data;
    if (part->size == PyBytes_GET_SIZE(data)) {
        return Py_NewRef(data);
    }
    PyObject *view = PyMemoryView_FromObject(data);
    PyObject *found = view == NULL
                          ? NULL
                          : PySequence_GetSlice(view, part->from, part->from + part->size);
    Py_XDECREF(view);
    return found;
}

/* pieces(start, stop): the bytes of these elements, in pieces that are not copied. */
static PyObject *
packed_pieces(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const Packed *packed = (Packed *)self;
    Py_ssize_t start, stop;
    if (!take_range("pieces", packed, args, count, &start, &stop)) {
        return NULL;
    }
    PyObject *found = PyList_New(0);
    while (found != NULL && start < stop) {
        Part part = part_at(packed, start, stop);
        PyObject *one = piece(&part);
        if (one == NULL || PyList_Append(found, one) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(one);
        start = end_of(&part);
    }
    return found;
}

/* join(head, start, stop): the bytes of these elements in one piece, behind a head. */
static PyObject *
packed_join(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const Packed *packed = (Packed *)self;
    Py_ssize_t start, stop;
    if (count < 1 || !PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "join takes a head of bytes, a start and a stop");
        return NULL;
    }
    if (!take_range("join", packed, args + 1, count - 1, &start, &stop)) {
        return NULL;
    }
    Py_ssize_t before = PyBytes_GET_SIZE(args[0]);
    PyObject *found = PyBytes_FromStringAndSize(NULL, before + span(packed, start, stop));
    if (found == NULL) {
        return NULL;
    }
    char *to = PyBytes_AS_STRING(found);
    memcpy(to, PyBytes_AS_STRING(args[0]), (size_t)before);
    to += before;
    while (start < stop) {
        Part part = part_at(packed, start, stop);
        memcpy(to, PyBytes_AS_STRING(part.segment->data) + part.from, (size_t)part.size);
        to += part.size;
        start = end_of(&part);
    }
    return found;
}

/* lengths(): how long each of them is. */
static PyObject *
packed_lengths(PyObject *self, PyObject *Py_UNUSED(none))
{
    const Packed *packed = (Packed *)self;
    PyObject *found = PyList_New(packed->count);
    Cursor cursor = {packed->segments, 0};
    for (Py_ssize_t n = 0; found != NULL && n < packed->count; n++) {
        Py_ssize_t size;
        next_element(&cursor, &size);
        PyObject *number = PyLong_FromSsize_t(size);
        if (number == NULL) {
            Py_CLEAR(found);
        }
        else {
            PyList_SET_ITEM(found, n, number);
        }
    }
    return found;
}

static const Packed *
take_packed(const char *name, PyObject *self, PyObject *other)
{
    if (Py_TYPE(other) != Py_TYPE(self)) {
        PyErr_Format(PyExc_TypeError, "%s takes packed elements", name);
        return NULL;
    }
    return (Packed *)other;
}

/* same(new): how many elements are the same from the start, and how many of the others from the
   end. */
static PyObject *
packed_same(PyObject *self, PyObject *other)
{
    const Packed *packed = (Packed *)self, *new = take_packed("same", self, other);
    if (new == NULL) {
        return NULL;
    }
    if (new->follows != NULL && new->follows == packed->mark) {
        return Py_BuildValue("nn", new->first, new->last);
    }
    Py_ssize_t first = new == packed ? new->count : same_start(packed, new);
    Py_ssize_t most = (packed->count < new->count ? packed->count : new->count) - first;
    return Py_BuildValue("nn", first, packed_same_end(packed, new, most));
}

/* ends_with(other): whether the last elements are these. */
static PyObject *
packed_ends_with(PyObject *self, PyObject *other)
{
    const Packed *packed = (Packed *)self, *end = take_packed("ends_with", self, other);
    if (end == NULL) {
        return NULL;
    }
    return PyBool_FromLong(end->count <= packed->count
                           && packed_same_end(packed, end, end->count) == end->count);
}

/* made(): new dicts like those that were packed; None if they are not all flat, or not known. */
static PyObject *
packed_made(PyObject *self, PyObject *Py_UNUSED(none))
{
    const Packed *packed = (Packed *)self;
    int whole = Py_SIZE(self) > 0; /* else it may be of a dict */
    for (Py_ssize_t n = 0; whole && n < Py_SIZE(self); n++) {
        whole = leaves_are_whole(packed->segments[n].leaves, packed->segments[n].count);
    }
    if (!whole) {
        Py_RETURN_NONE;
    }
    PyObject *found = PyList_New(packed->count);
    Models models;
    models_start(&models);
    for (Py_ssize_t n = 0; found != NULL && n < Py_SIZE(self); n++) {
        const Segment *segment = &packed->segments[n];
        if (leaves_make(segment->leaves, segment->count, &models, found, segment->before) < 0) {
            Py_CLEAR(found);
        }
    }
    models_forget(&models);
    return found;
}

static PyMethodDef methods[] = {
    {"made", packed_made, METH_NOARGS, NULL},
    {"span", (PyCFunction)(void (*)(void))packed_span, METH_FASTCALL, NULL},
    {"pieces", (PyCFunction)(void (*)(void))packed_pieces, METH_FASTCALL, NULL},
    {"join", (PyCFunction)(void (*)(void))packed_join, METH_FASTCALL, NULL},
    {"lengths", packed_lengths, METH_NOARGS, NULL},
    {"same", packed_same, METH_O, NULL},
    {"ends_with", packed_ends_with, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* What it takes in memory, about, with what it may share with other versions. */
static PyObject *
packed_weight(PyObject *self, void *Py_UNUSED(closure))
{
    const Packed *packed = (Packed *)self;
    Py_ssize_t weight = packed->size;
    for (Py_ssize_t n = 0; n < Py_SIZE(self); n++) {
        const Leaves *leaves = packed->segments[n].leaves;
        weight += leaves == NULL ? 0 : leaves->weight;
    }
    return PyLong_FromSsize_t(weight);
}

static PyGetSetDef computed[] = {
    {"weight", packed_weight, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"size", T_PYSSIZET, offsetof(Packed, size), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, packed_free},
    {Py_tp_hash, PyObject_HashNotImplemented},
    {Py_tp_richcompare, packed_compare},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, computed},
    {Py_sq_length, packed_count},
    {Py_sq_item, packed_item},
    {Py_mp_length, packed_count},
    {Py_mp_subscript, packed_subscript},
    {0, NULL},
};

/* It holds only bytes, marks, and texts and numbers of exactly these types. So there are no cycles,
   and nothing for the garbage collector. */
PyType_Spec packed_spec = {
    .name = "milepost._native.Packed",
    .basicsize = offsetof(Packed, segments),
    .itemsize = sizeof(Segment),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};
