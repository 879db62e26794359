/* The optional accelerator: what milepost/native.py offers, and milepost/_native.pyi describes. */

#include "packed.h"

static PyMethodDef methods[] = {
    {"pack", (PyCFunction)(void (*)(void))native_pack, METH_FASTCALL, NULL},
    {"unpack", (PyCFunction)(void (*)(void))native_unpack, METH_FASTCALL, NULL},
    {"unpack_pieces", (PyCFunction)(void (*)(void))native_unpack_pieces, METH_FASTCALL, NULL},
    {"after", (PyCFunction)(void (*)(void))native_after, METH_FASTCALL, NULL},
    {"cut_up", native_cut_up, METH_O, NULL},
    {"copies", (PyCFunction)(void (*)(void))native_copies, METH_FASTCALL, NULL},
    {"summed", (PyCFunction)(void (*)(void))native_summed, METH_FASTCALL, NULL},
    {"holds", (PyCFunction)(void (*)(void))native_holds, METH_FASTCALL, NULL},
    {"steps", native_steps, METH_O, NULL},
    {"grow", (PyCFunction)(void (*)(void))native_grow, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

typedef struct {
    PyObject *packed;
} State;

PyTypeObject *
packed_type(PyObject *module)
{
    return (PyTypeObject *)((State *)PyModule_GetState(module))->packed;
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    Py_VISIT(((State *)PyModule_GetState(module))->packed);
    return 0;
}

static int
clear(PyObject *module)
{
    Py_CLEAR(((State *)PyModule_GetState(module))->packed);
    return 0;
}

static void
release(void *module)
{
    clear(module);
}

static int
start(PyObject *module)
{
    State *state = PyModule_GetState(module);
    state->packed = PyType_FromModuleAndSpec(module, &packed_spec, NULL);
    if (state->packed == NULL || PyModule_AddObjectRef(module, "Packed", state->packed) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "SWIFT", sums_start() ? Py_True : Py_False);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, start},
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "milepost._native",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
    .m_free = release,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&module);
}
