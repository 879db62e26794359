/* What the files of the accelerator share. It has no state. */

#ifndef MILEPOST_NATIVE_H
#define MILEPOST_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

/* Bounds of the stored format: milepost/checkpoint/serde/_msgpack/depth.py and ext.py. */
enum {
    MOST_LISTS_WRITTEN = 255,
    MOST_LISTS_READ = 1021, /* which have members: as many as ormsgpack reads in a pair */
    MOST_TUPLES = 8, /* whatever a caller asks for: the stack must bear it */
    CODE_OF_TUPLE = 32,
    CODE_OF_RECORD = 37,
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
Outcome pack_model(Buffer *to, PyObject *model, PyObject *form, int tuples);
Outcome pack_key(Buffer *to, PyObject *key);
Outcome pack_count(Buffer *to, Py_ssize_t count, int short_head, int head);

/* -- models and copies */

/* What pydantic keeps of a model: SLOTS in milepost/checkpoint/serde/_types/models.py. */
enum { GIVEN, EXTRA, PRIVATE, FIELDS, SLOTS };

PyObject *new_model(PyTypeObject *cls, PyObject *slots, PyObject **values);
int has_fields(PyObject *fields, PyObject *names);

PyObject *copy_of_element(PyObject *value, PyObject *models);
int is_as_copied(PyObject *kept, PyObject *value, PyObject *models);

/* -- what Python calls */

int take_tuples(const char *name, PyObject *const *args, Py_ssize_t count, int *tuples);
PyObject *native_pack(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_unpack(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_elements(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_copies(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *native_cut_up(PyObject *module, PyObject *data);

#endif
