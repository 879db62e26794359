/* What the files of the accelerator share. It has no state but its type. */

#ifndef MILEPOST_NATIVE_H
#define MILEPOST_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* Bounds of the stored format: milepost/checkpoint/serde/depth.py and ext.py. */
enum {
    MOST_LISTS_WRITTEN = 255,
    MOST_LISTS_READ = 1021, /* which have members: as many as ormsgpack reads in a pair */
    MOST_TUPLES = 8, /* whatever a caller asks for: the stack must bear it */
    CODE_OF_TUPLE = 32,
};

/* -- bytes that grow */

enum {
    SMALL = 512,
    QUICK = 1 << 15, /* up to here room grows fourfold: later that would be room that
                        the system takes back, and gives again, page by page */
    LARGE = 1 << 20, /* from here on a copy, or room that is not used, is felt */
};

typedef struct {
    char *data;
    Py_ssize_t size;
    Py_ssize_t room;
    PyObject *bytes; /* where `data` is, once `small` is not enough */
    char small[SMALL];
} Buffer;

void buffer_start(Buffer *buffer);
int buffer_grow(Buffer *buffer, Py_ssize_t more);
PyObject *buffer_finish(Buffer *buffer);
void buffer_drop(Buffer *buffer);

/* Room for `more` bytes; -1 with an exception if there is none. */
static inline int
buffer_reserve(Buffer *buffer, Py_ssize_t more)
{
    return buffer->room - buffer->size >= more ? 0 : buffer_grow(buffer, more);
}

/* -- packing */

typedef enum {
    FAILED = -1,   /* an exception is set */
    NOT_PLAIN = 0, /* something that is not for us; no exception */
    PACKED = 1,
} Outcome;

Outcome pack_value(Buffer *to, PyObject *value, int lists, int tuples);
Outcome pack_key(Buffer *to, PyObject *key);
Outcome pack_count(Buffer *to, Py_ssize_t count, int short_head, int head);

/* -- unpacking */

/* Reads the head of a list or dict; NULL if it is none, or speaks of more elements than there are
   bytes. */
const unsigned char *read_head(const unsigned char *at, const unsigned char *end,
                               Py_ssize_t bytes, int *is_list, Py_ssize_t *count);

/* -- checksums */

enum {
    SUM = 4, /* bytes of one */
    LANE = 16,
    LANES = 4 * LANE,
};

/* What a cell is bound to: names, of which the second is left out, and columns. */
typedef struct {
    PyObject *const *names;
    Py_ssize_t names_count;
    PyObject *const *columns;
    Py_ssize_t columns_count;
} Bound;

/* Whether the bytes of a cell end with their checksum; -1 with an exception. */
int cell_holds(const unsigned char *data, Py_ssize_t size, const Bound *to);

int sums_start(void); /* whether large cells are summed up with the processor's help */
int has_lanes(void);
/* Of four lanes or more, and whole ones; only if there are any. Start and sum are inverted. */
uint32_t sum_of_lanes(uint32_t sum, const unsigned char *at, Py_ssize_t size);

/* -- what Python calls */

int take_tuples(const char *name, PyObject *const *args, Py_ssize_t count, int *tuples);
PyObject *native_pack(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_unpack(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_unpack_pieces(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_after(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_cut_up(PyObject *module, PyObject *pieces);
PyObject *native_copies(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_steps(PyObject *module, PyObject *data);
PyObject *native_grow(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_summed(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_holds(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
