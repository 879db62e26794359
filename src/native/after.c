/* Packs a list or dict against another version of it: an element that is the same is found by its
   bytes, and not kept a second time.

   Segments are of moderate size, because large pieces of memory are given back to the system, and
   getting them again costs more than all the packing. */

#include "packed.h"

enum { SEGMENT = 1 << 16 };

typedef struct {
    Buffer data; /* of the segment that is being packed */
    Buffer cuts;
    Sapling leaves;
    int keeps;         /* leaves */
    Segment *segments; /* those before it */
    Py_ssize_t count;
    Py_ssize_t room;
} Line;

static void
line_drop(Line *line)
{
    buffer_drop(&line->data);
    buffer_drop(&line->cuts);
    sapling_drop(&line->leaves);
    for (Py_ssize_t n = 0; n < line->count; n++) {
        segment_drop(&line->segments[n]);
    }
    PyMem_Free(line->segments);
}

/* Takes the segment over, also if it fails. */
static int
add_segment(Line *line, Segment segment)
{
    if (segment.data == NULL || segment.cuts == NULL) {
        segment_drop(&segment);
        return -1;
    }
    if (line->count == line->room) {
        Py_ssize_t room = 2 * line->room + 8;
        Segment *segments = PyMem_Realloc(line->segments, (size_t)room * sizeof segment);
        if (segments == NULL) {
            segment_drop(&segment);
            PyErr_NoMemory();
            return -1;
        }
        line->segments = segments;
        line->room = room;
    }
    line->segments[line->count++] = segment;
    return 0;
}

/* The first bytes of some; if that is little of them, the rest is not kept alive. */
static PyObject *
first_bytes(PyObject *bytes, Py_ssize_t size)
{
    return 2 * size > PyBytes_GET_SIZE(bytes)
               ? Py_NewRef(bytes)
               : PyBytes_FromStringAndSize(PyBytes_AS_STRING(bytes), size);
}

/* The first elements of another version. */
static int
add_first(Line *line, const Packed *base, Py_ssize_t first)
{
    for (Py_ssize_t n = 0; first > 0; n++) {
        const Segment *segment = &base->segments[n];
        Py_ssize_t count = first < segment->count ? first : segment->count;
        Segment found = {first_bytes(segment->data, cut_of(segment, count)),
                         first_bytes(segment->cuts, 8 * (count + 1)), count, 0, NULL};
        if (found.data == segment->data && segment->leaves != NULL
            && 2 * count > segment->leaves->count) {
            found.leaves = leaves_share(segment->leaves);
        }
        first -= count;
        if (add_segment(line, found) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Where the next bytes and cuts of a segment go that is put together from others. */
typedef struct {
    char *to;
    PyObject *cuts;
    Py_ssize_t size;
    Py_ssize_t count;
} Joint;

static void
add_to(Joint *joint, const char *data, const char *cuts, Py_ssize_t count)
{
    uint64_t start, cut = 0;
    memcpy(&start, cuts, 8);
    for (Py_ssize_t n = 1; n <= count; n++) {
        memcpy(&cut, cuts + 8 * n, 8);
        set_cut(joint->cuts, joint->count + n, joint->size + (Py_ssize_t)(cut - start));
    }
    memcpy(joint->to + joint->size, data + start, (size_t)(cut - start));
    joint->size += (Py_ssize_t)(cut - start);
    joint->count += count;
}

/* The leaves of a segment that is put together from those after `with`, and from new ones. */
static int
flush_leaves(Line *line, Py_ssize_t with, Segment *made)
{
    Sapling joined = {NULL, 0, 0, 0, 0};
    Leaves *new = sapling_finish(&line->leaves);
    int done = 0;
    for (Py_ssize_t n = with; n < line->count && done == 0; n++) {
        done = sapling_add_kept(&joined, line->segments[n].leaves, line->segments[n].count);
    }
    if (done == 0 && with < line->count) {
        done = sapling_add_kept(&joined, new, line->cuts.size / 8 - 1);
        leaves_drop(new);
        new = sapling_finish(&joined);
    }
    sapling_drop(&joined);
    if (done < 0) {
        leaves_drop(new);
        return -1;
    }
    made->leaves = new;
    return 0;
}

/* What was packed becomes a segment, and the buffers are empty again. Short ones before it are
   joined with it, where that pays: a byte is then copied once for each doubling, not for each
   version. */
static int
flush(Line *line)
{
    Py_ssize_t size = line->data.size, count = line->cuts.size / 8 - 1, with = line->count;
    while (with > 0) {
        Py_ssize_t before = size_of(&line->segments[with - 1]);
        if (before > 2 * size || before + size > SEGMENT) {
            break;
        }
        with -= 1;
        size += before;
        count += line->segments[with].count;
    }
    int is_taken = with == line->count && size >= LARGE; /* as it is: it would be there twice */
    Segment made = {is_taken ? buffer_finish(&line->data) : PyBytes_FromStringAndSize(NULL, size),
                    PyBytes_FromStringAndSize(NULL, 8 * (count + 1)), count, 0, NULL};
    if (is_taken) {
        buffer_start(&line->data);
    }
    if (line->keeps && flush_leaves(line, with, &made) < 0) {
        segment_drop(&made);
        return -1;
    }
    if (is_taken && made.cuts != NULL) {
        memcpy(PyBytes_AS_STRING(made.cuts), line->cuts.data, (size_t)line->cuts.size);
    }
    else if (made.data != NULL && made.cuts != NULL) {
        Joint joint = {PyBytes_AS_STRING(made.data), made.cuts, 0, 0};
        set_cut(made.cuts, 0, 0);
        for (Py_ssize_t n = with; n < line->count; n++) {
            Segment *segment = &line->segments[n];
            add_to(&joint, PyBytes_AS_STRING(segment->data), PyBytes_AS_STRING(segment->cuts),
                   segment->count);
            segment_drop(segment);
        }
        line->count = with;
        add_to(&joint, line->data.data, line->cuts.data, line->cuts.size / 8 - 1);
    }
    line->data.size = 0;
    line->cuts.size = 0;
    return add_segment(line, made);
}

/* Begins, or goes on with, the segment that is being packed: an element ends here. */
static int
add_cut(Line *line, Py_ssize_t at)
{
    if (buffer_reserve(&line->cuts, 8) < 0) {
        return -1;
    }
    uint64_t number = (uint64_t)at;
    memcpy(line->cuts.data + line->cuts.size, &number, 8);
    line->cuts.size += 8;
    return 0;
}

static inline Py_ssize_t
count_of(PyObject *value)
{
    return PyList_CheckExact(value) ? PyList_GET_SIZE(value) : PyDict_GET_SIZE(value);
}

/* Elements of another version, as they are compared with one after the other. */
typedef struct {
    Packed *base;
    Cursor cursor;
    Sapling leaves; /* of its segment, if that has none */
} Comparison;

/* Whether the next element is a dict whose values are the ones that were kept. */
static inline int
is_as_kept(Comparison *with, PyObject *member)
{
    Cursor *cursor = &with->cursor;
    if (cursor->n == cursor->segment->count) {
        cursor->segment += 1;
        cursor->n = 0;
    }
    const Leaves *leaves = cursor->segment->leaves;
    if (leaves == NULL || !leaves_are(leaves, cursor->n, member)) {
        return 0;
    }
    cursor->n += 1;
    return 1;
}

/* Keeps the leaves of an element that was found to be the same by its bytes. */
static int
keep(Comparison *with, PyObject *member)
{
    Segment *segment = &with->base->segments[with->cursor.segment - with->base->segments];
    if (segment->leaves != NULL) {
        return 0;
    }
    if (sapling_add(&with->leaves, member) < 0) {
        return -1;
    }
    if (with->cursor.n == segment->count) {
        segment->leaves = sapling_finish(&with->leaves);
    }
    return 0;
}

/* Counts the elements that are the same as those of `base` from the start. If there are others,
   takes these over, and packs the others. No object is made that the garbage collector looks
   after, so nothing can run that changes the value meanwhile. */
static Outcome
pack_after(Line *line, PyObject *value, int tuples, Comparison *with, Py_ssize_t *first)
{
    const Packed *base = with->base;
    int is_list = PyList_CheckExact(value);
    Py_ssize_t count = count_of(value), most = base == NULL ? 0 : base->count, position = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        Outcome outcome = PACKED;
        PyObject *key, *member;
        if (is_list) {
            member = PyList_GET_ITEM(value, n);
            if (n == *first && n < most && is_as_kept(with, member)) {
                *first = n + 1;
                continue;
            }
        }
        else if (PyDict_Next(value, &position, &key, &member)) {
            outcome = pack_key(&line->data, key);
        }
        else {
            return NOT_PLAIN;
        }
        if (outcome == PACKED) {
            outcome = pack_value(&line->data, member, 1, tuples);
        }
        if (outcome != PACKED) {
            return outcome;
        }
        if (n == *first && n < most) {
            Py_ssize_t size;
            const char *old = next_element(&with->cursor, &size);
            if (size == line->data.size && memcmp(old, line->data.data, (size_t)size) == 0) {
                if (line->keeps && keep(with, member) < 0) {
                    return FAILED;
                }
                line->data.size = 0;
                *first = n + 1;
                continue;
            }
        }
        if (n == *first && add_first(line, base, *first) < 0) {
            return FAILED;
        }
        if ((line->cuts.size == 0 && add_cut(line, 0) < 0) || add_cut(line, line->data.size) < 0
            || (line->keeps && sapling_add(&line->leaves, member) < 0)
            || (line->data.size >= SEGMENT && flush(line) < 0)) {
            return FAILED;
        }
    }
    return line->cuts.size > 0 && flush(line) < 0 ? FAILED : PACKED;
}

/* Notes what a version has in common with the one before it. */
static int
follow(Packed *new, Packed *base, Py_ssize_t first)
{
    if (base->mark == NULL) {
        base->mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
        if (base->mark == NULL) {
            return -1;
        }
    }
    Py_ssize_t most = (base->count < new->count ? base->count : new->count) - first;
    new->follows = Py_NewRef(base->mark);
    new->first = first;
    new->last = packed_same_end(base, new, most);
    return 0;
}

/* The elements of a value that has `count`. */
static Packed *
finish(Line *line, PyTypeObject *type, Packed *base, Py_ssize_t first, Py_ssize_t count)
{
    if (base != NULL && first == count && first == base->count) {
        return (Packed *)Py_NewRef(base);
    }
    if (first == count && add_first(line, base, first) < 0) {
        return NULL;
    }
    Packed *packed = packed_new(type, line->segments, line->count);
    line->count = 0; /* they are taken over */
    if (packed != NULL && base != NULL && follow(packed, base, first) < 0) {
        Py_CLEAR(packed);
    }
    return packed;
}

/* after(value, tuples, base, keeps): head and elements of a list or dict. What packed elements of
   another version begin with is taken from there; any other `base` is none. With `keeps`, of
   elements that are flat dicts also the values. None if it is not plain. */
PyObject *
native_after(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    int tuples = 0;
    if (count != 4) {
        return PyErr_Format(PyExc_TypeError, "after takes 4 arguments, not %zd", count);
    }
    int keeps = PyObject_IsTrue(args[3]);
    if (keeps < 0 || !take_tuples("after", args, 2, &tuples)) {
        return NULL;
    }
    PyObject *value = args[0];
    int is_list = PyList_CheckExact(value);
    if (!is_list && !PyDict_CheckExact(value)) {
        Py_RETURN_NONE;
    }
    PyTypeObject *type = packed_type(module);
    Packed *base = Py_TYPE(args[2]) == type ? (Packed *)args[2] : NULL, *packed = NULL;
    Line line = {.segments = NULL, .keeps = keeps && is_list};
    Comparison with = {.base = base, .cursor = {base == NULL ? NULL : base->segments, 0}};
    buffer_start(&line.data);
    buffer_start(&line.cuts);
    Py_ssize_t first = 0, size = count_of(value);
    Outcome outcome = pack_after(&line, value, tuples, &with, &first);
    sapling_drop(&with.leaves);
    if (outcome == PACKED) {
        packed = finish(&line, type, base, first, size);
        outcome = packed == NULL ? FAILED
                                 : pack_count(&line.data, size, is_list ? 0x90 : 0x80,
                                              is_list ? 0xdc : 0xde);
    }
    PyObject *found = NULL;
    if (outcome == PACKED) {
        PyObject *head = PyBytes_FromStringAndSize(line.data.data, line.data.size);
        found = behind_head(head, packed);
        Py_XDECREF(head);
    }
    else {
        Py_XDECREF(packed);
        found = outcome == NOT_PLAIN ? Py_NewRef(Py_None) : NULL;
    }
    line_drop(&line);
    return found;
}
