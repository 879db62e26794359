/* Dicts that others are made like: see models.c. */

#ifndef MILEPOST_MODELS_H
#define MILEPOST_MODELS_H

#include "native.h"

enum {
    MODELS = 2,    /* mostly two roles take turns */
    MOST_KEYS = 8, /* of a model */
};

typedef struct {
    PyObject *dicts[MODELS]; /* with the same keys, in the same order, which they keep alive */
    PyObject *keys[MOST_KEYS];
    PyObject *values[MODELS][MOST_KEYS]; /* nobody changes the dicts before all are made */
    Py_ssize_t count; /* of keys; 0 if there is no model */
    int next;         /* to be replaced */
} Models;

void models_start(Models *models);
void models_forget(Models *models);
/* A dict with the keys of the models. */
PyObject *models_copy(Models *models, PyObject *const *values);
/* A dict with other keys, which is the first model of its kind from now on. */
PyObject *models_begin(Models *models, PyObject *const *keys, PyObject *const *values,
                       Py_ssize_t count);

#endif
