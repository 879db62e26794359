/* The optional accelerator: what milepost/native.py offers, and milepost/_native.pyi describes. */

#include "native.h"

static PyMethodDef methods[] = {
    {"pack", (PyCFunction)(void (*)(void))native_pack, METH_FASTCALL, NULL},
    {"unpack", (PyCFunction)(void (*)(void))native_unpack, METH_FASTCALL, NULL},
    {"unpack_pieces", (PyCFunction)(void (*)(void))native_unpack_pieces, METH_FASTCALL, NULL},
    {"pack_elements", (PyCFunction)(void (*)(void))native_elements, METH_FASTCALL, NULL},
    {"copies", (PyCFunction)(void (*)(void))native_copies, METH_FASTCALL, NULL},
    {"cut_up", native_cut_up, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if PY_VERSION_HEX >= 0x030c0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "milepost._native",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit__native(void)
{
    return PyModuleDef_Init(&module);
}
