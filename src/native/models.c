/* Dicts of a list mostly have the same keys, and values that recur. Then a copy of one of them, in
   which the other values are exchanged, takes less than a new one. */

#include "models.h"

void
models_start(Models *models)
{
    memset(models->dicts, 0, sizeof models->dicts);
    models->count = 0;
}

void
models_forget(Models *models)
{
    for (int n = 0; n < MODELS; n++) {
        Py_CLEAR(models->dicts[n]);
    }
    models->count = 0;
}

static void
add_model(Models *models, PyObject *dict, PyObject *const *values)
{
    int which = models->next;
    models->next = (which + 1) % MODELS;
    Py_XSETREF(models->dicts[which], Py_NewRef(dict));
    memcpy(models->values[which], values, (size_t)models->count * sizeof *values);
}

PyObject *
models_copy(Models *models, PyObject *const *values)
{
    /* The one that begins with the same value. */
    int which = models->dicts[1] != NULL && models->values[1][0] == values[0];
    PyObject *dict = PyDict_Copy(models->dicts[which]);
    for (Py_ssize_t n = 0; dict != NULL && n < models->count; n++) {
        if (values[n] != models->values[which][n]
            && PyDict_SetItem(dict, models->keys[n], values[n]) < 0) {
            Py_CLEAR(dict);
        }
    }
    if (dict != NULL && models->values[which][0] != values[0]) {
        add_model(models, dict, values);
    }
    return dict;
}

PyObject *
models_begin(Models *models, PyObject *const *keys, PyObject *const *values, Py_ssize_t count)
{
    models_forget(models);
    PyObject *dict = PyDict_New();
    for (Py_ssize_t n = 0; dict != NULL && n < count; n++) {
        if (PyDict_SetItem(dict, keys[n], values[n]) < 0) {
            Py_CLEAR(dict);
        }
    }
    if (dict != NULL && PyDict_GET_SIZE(dict) == count) { /* no key is there twice */
        memcpy(models->keys, keys, (size_t)count * sizeof *keys);
        models->count = count;
        models->next = 0;
        add_model(models, dict, values);
    }
    return dict;
}
