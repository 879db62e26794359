/* Checksums of stored cells: CRC-32, as zlib has it, over what a cell is bound to and its bytes. */

#include "native.h"

static uint32_t table[8][256];
static int swift;

int
sums_start(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t sum = byte;
        for (int bit = 0; bit < 8; bit++) {
            sum = sum & 1 ? 0xEDB88320u ^ sum >> 1 : sum >> 1;
        }
        table[0][byte] = sum;
    }
    for (int ahead = 1; ahead < 8; ahead++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t sum = table[ahead - 1][byte];
            table[ahead][byte] = table[0][sum & 255] ^ sum >> 8;
        }
    }
    swift = has_lanes();
    return swift;
}

/* What is not in lanes, eight bytes at a time, each through the table for how far it is from the
   end of them. */
static uint32_t
crc(uint32_t sum, const unsigned char *data, Py_ssize_t size)
{
    sum = ~sum;
    if (swift && size >= LANES) {
        Py_ssize_t whole = size - size % LANE;
        sum = sum_of_lanes(sum, data, whole);
        data += whole;
        size -= whole;
    }
    for (; size >= 8; size -= 8, data += 8) {
        sum ^= data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        sum = table[7][sum & 255] ^ table[6][sum >> 8 & 255] ^ table[5][sum >> 16 & 255]
              ^ table[4][sum >> 24] ^ table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]]
              ^ table[0][data[7]];
    }
    while (size-- > 0) {
        sum = table[0][(sum ^ *data++) & 255] ^ sum >> 8;
    }
    return ~sum;
}

static int
add_text(uint32_t *sum, PyObject *text)
{
    if (!PyUnicode_Check(text)) {
        PyErr_SetString(PyExc_TypeError, "a cell is bound to texts and numbers");
        return -1;
    }
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(text, &size);
    if (data != NULL) {
        *sum = crc(*sum, (const unsigned char *)data, size);
        return 0;
    }
    PyErr_Clear();
    PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
    if (bytes == NULL) {
        return -1;
    }
    data = PyBytes_AS_STRING(bytes);
    *sum = crc(*sum, (const unsigned char *)data, PyBytes_GET_SIZE(bytes));
    Py_DECREF(bytes);
    return 0;
}

static int
add_column(uint32_t *sum, PyObject *column)
{
    if (column == Py_None) {
        *sum = crc(*sum, (const unsigned char *)"", 1); /* the NUL */
        return 0;
    }
    *sum = crc(*sum, (const unsigned char *)"\0=", 2);
    if (PyUnicode_Check(column)) {
        return add_text(sum, column);
    }
    PyObject *text = PyObject_Str(column);
    if (text == NULL) {
        return -1;
    }
    int failed = add_text(sum, text);
    Py_DECREF(text);
    return failed;
}

/* What a checksum starts with: the first name, those after the second, and the columns. */
static int
bind(const Bound *to, uint32_t *sum)
{
    *sum = 0;
    for (Py_ssize_t at = 0; at < to->names_count; at++) {
        if (at == 1) {
            continue;
        }
        if (at > 1) {
            *sum = crc(*sum, (const unsigned char *)"", 1);
        }
        if (add_text(sum, to->names[at]) < 0) {
            return -1;
        }
    }
    for (Py_ssize_t at = 0; at < to->columns_count; at++) {
        if (add_column(sum, to->columns[at]) < 0) {
            return -1;
        }
    }
    return 0;
}

int
cell_holds(const unsigned char *data, Py_ssize_t size, const Bound *to)
{
    uint32_t sum, stored = 0;
    if (bind(to, &sum) < 0) {
        return -1;
    }
    size -= SUM;
    if (size < 0) {
        return 0;
    }
    for (int byte = 0; byte < SUM; byte++) {
        stored = stored << 8 | data[size + byte];
    }
    return crc(sum, data, size) == stored;
}

static int
take_bound(PyObject *const *args, Bound *to)
{
    PyObject *place = args[0], *columns = args[1];
    if (!PyTuple_Check(place) || PyTuple_GET_SIZE(place) < 2 || !PyTuple_Check(columns)) {
        PyErr_SetString(PyExc_TypeError, "a place and columns are tuples");
        return -1;
    }
    *to = (Bound){&PyTuple_GET_ITEM(place, 0), PyTuple_GET_SIZE(place),
                  &PyTuple_GET_ITEM(columns, 0), PyTuple_GET_SIZE(columns)};
    return 0;
}

PyObject *
native_summed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3) {
        return PyErr_Format(PyExc_TypeError, "summed takes 3 arguments, not %zd", count);
    }
    if (!PyBytes_Check(args[0])) {
        PyErr_SetString(PyExc_TypeError, "summed takes bytes, a place and columns");
        return NULL;
    }
    uint32_t sum;
    Bound to;
    if (take_bound(args + 1, &to) < 0 || bind(&to, &sum) < 0) {
        return NULL;
    }
    Py_ssize_t size = PyBytes_GET_SIZE(args[0]);
    const char *data = PyBytes_AS_STRING(args[0]);
    sum = crc(sum, (const unsigned char *)data, size);
    PyObject *made = PyBytes_FromStringAndSize(NULL, size + SUM);
    if (made != NULL) {
        char *to = PyBytes_AS_STRING(made);
        memcpy(to, data, (size_t)size);
        for (int byte = 0; byte < SUM; byte++) {
            to[size + byte] = (char)(sum >> 8 * (SUM - 1 - byte) & 255);
        }
    }
    return made;
}

PyObject *
native_holds(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    if (count != 3) {
        return PyErr_Format(PyExc_TypeError, "holds takes 3 arguments, not %zd", count);
    }
    Bound to;
    Py_buffer view;
    if (take_bound(args + 1, &to) < 0 || PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    int holds = cell_holds(view.buf, view.len, &to);
    PyBuffer_Release(&view);
    return holds < 0 ? NULL : PyBool_FromLong(holds);
}
