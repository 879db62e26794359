#include "native.h"

void
buffer_start(Buffer *buffer)
{
    buffer->data = buffer->small;
    buffer->size = 0;
    buffer->room = SMALL;
    buffer->bytes = NULL;
}

int
buffer_grow(Buffer *buffer, Py_ssize_t more)
{
    if (more > PY_SSIZE_T_MAX / 4 - buffer->size) {
        PyErr_NoMemory();
        return -1;
    }
    /* Not more for one large text than it takes: it may be all that there is. */
    Py_ssize_t size = buffer->size;
    Py_ssize_t spare = size < QUICK ? 3 * size : size < LARGE ? size : size / 4;
    Py_ssize_t room = size + more + (spare < SMALL ? SMALL : spare);
    if (buffer->bytes == NULL) {
        buffer->bytes = PyBytes_FromStringAndSize(NULL, room);
        if (buffer->bytes != NULL) {
            memcpy(PyBytes_AS_STRING(buffer->bytes), buffer->data, (size_t)buffer->size);
        }
    }
    else {
        _PyBytes_Resize(&buffer->bytes, room); /* leaves NULL if it fails */
    }
    if (buffer->bytes == NULL) {
        return -1;
    }
    buffer->data = PyBytes_AS_STRING(buffer->bytes);
    buffer->room = room;
    return 0;
}

/* The bytes as an object; the buffer is used up. */
PyObject *
buffer_finish(Buffer *buffer)
{
    if (buffer->bytes == NULL) {
        return PyBytes_FromStringAndSize(buffer->data, buffer->size);
    }
    _PyBytes_Resize(&buffer->bytes, buffer->size);
    return buffer->bytes;
}

void
buffer_drop(Buffer *buffer)
{
    Py_CLEAR(buffer->bytes);
}
