/* The values of flat dicts, kept beside their bytes: see leaves.c. */

#ifndef MILEPOST_LEAVES_H
#define MILEPOST_LEAVES_H

#include "models.h"

/* Of the elements of a segment. Not an object of Python's: making one must not run other code. */
typedef struct {
    Py_ssize_t references;
    Py_ssize_t count;    /* of elements */
    Py_ssize_t weight;   /* bytes of memory, about */
    int width;           /* of keys */
    PyObject *items[1];  /* the keys, then the values of each element; NULLs if it has others */
} Leaves;

/* Those of a segment that is not complete yet. */
typedef struct {
    PyObject **items;
    Py_ssize_t size, room; /* of items */
    int width;             /* 0 as long as no element was flat */
    Py_ssize_t before;     /* elements before the first that was flat */
} Sapling;

static inline PyObject *const *
leaves_of(const Leaves *leaves, Py_ssize_t n)
{
    return leaves->items + (n + 1) * leaves->width;
}

/* Whether a value is a dict that has these values, and no others. */
int leaves_are(const Leaves *leaves, Py_ssize_t n, PyObject *value);
/* Whether each of the first elements has some. */
int leaves_are_whole(const Leaves *leaves, Py_ssize_t count);
/* Puts dicts that have them into a list, from `at` on. */
int leaves_make(const Leaves *leaves, Py_ssize_t count, Models *models, PyObject *list,
                Py_ssize_t at);
Leaves *leaves_share(Leaves *leaves);
void leaves_drop(Leaves *leaves);

/* Adds those of a value; -1 with an exception. */
int sapling_add(Sapling *sapling, PyObject *value);
/* Adds those of some elements that were kept before; there may be none. */
int sapling_add_kept(Sapling *sapling, const Leaves *leaves, Py_ssize_t count);
/* What was added, and the sapling is empty again. NULL if nothing was flat. */
Leaves *sapling_finish(Sapling *sapling);
void sapling_drop(Sapling *sapling);

#endif
