/* Msgpack to values, strictly: one value and nothing after it, text that is UTF-8, and no room
   taken on the word of a length. Anything else is a ValueError, and the caller explains it.

   Extensions go to Python, except tuples, and objects of types that were met before: their fields are
   read here. The bytes are not trusted. */

#include "native.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    WORDS = 128,         /* short texts that are remembered during a call: mostly they recur */
    LONGEST_KEY = 32,
    LONGEST_WORD = 16,   /* of those that are values */
    LONGEST_TAG = 255,
    WORTH_WORDS = 200,   /* bytes from which that pays */
};

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
    Py_ssize_t owed;     /* members that open containers still lack: a byte each, at least */
    PyObject *hooks;     /* one for extensions here, one for those inside one of them, and so on */
    PyObject *known;     /* what decodes objects, by the tag that they begin with; or NULL */
    Py_ssize_t depth;    /* how many tuples and objects are around this */
    PyObject **words;
    int hook_failed;
} Reader;

static PyObject *read_value(Reader *reader, int lists);

static PyObject *
malformed(void)
{
    PyErr_SetString(PyExc_ValueError, "not msgpack as it is written here");
    return NULL;
}

static inline Py_ssize_t
left(const Reader *reader)
{
    return reader->end - reader->at;
}

static inline uint64_t
peek(const unsigned char *at, int width)
{
    uint64_t number = 0;
    for (int n = 0; n < width; n++) {
        number = number << 8 | at[n];
    }
    return number;
}

/* A number of `width` bytes; false if they are not there. */
static inline int
take(Reader *reader, int width, uint64_t *number)
{
    if (left(reader) < width) {
        return 0;
    }
    *number = peek(reader->at, width);
    reader->at += width;
    return 1;
}

/* -- text */

/* Decodes into a string's own characters. Their number is right if the text is valid: it is that
   of the bytes that begin one. */
#define DEFINE_DECODE(NAME, CHARACTER)                                                          \
    static int NAME(const unsigned char *at, const unsigned char *end, CHARACTER *to)           \
    {                                                                                           \
        while (at < end) {                                                                      \
            uint32_t first = *at;                                                               \
            if (first < 0x80) {                                                                 \
                *to++ = (CHARACTER)first;                                                       \
                at += 1;                                                                        \
            }                                                                                   \
            else if (first < 0xe0) {                                                            \
                if (first < 0xc2 || end - at < 2 || (at[1] & 0xc0) != 0x80) {                   \
                    return 0;                                                                   \
                }                                                                               \
                *to++ = (CHARACTER)((first & 0x1f) << 6 | (at[1] & 0x3f));                      \
                at += 2;                                                                        \
            }                                                                                   \
            else {                                                                              \
                int size;                                                                       \
                uint32_t character = decode_long(at, end, &size);                               \
                if (character == 0) {                                                           \
                    return 0;                                                                   \
                }                                                                               \
                *to++ = (CHARACTER)character;                                                   \
                at += size;                                                                     \
            }                                                                                   \
        }                                                                                       \
        return 1;                                                                               \
    }

/* A character of three or four bytes; 0 if it is none, too long a form, or half a pair. */
static inline uint32_t
decode_long(const unsigned char *at, const unsigned char *end, int *size)
{
    uint32_t first = *at, character;
    if (first < 0xf0) {
        if (end - at < 3 || (at[1] & 0xc0) != 0x80 || (at[2] & 0xc0) != 0x80) {
            return 0;
        }
        *size = 3;
        character = (first & 0x0f) << 12 | (uint32_t)(at[1] & 0x3f) << 6 | (at[2] & 0x3f);
        return character < 0x800 || (character >= 0xd800 && character < 0xe000) ? 0 : character;
    }
    if (first > 0xf4 || end - at < 4 || (at[1] & 0xc0) != 0x80 || (at[2] & 0xc0) != 0x80
        || (at[3] & 0xc0) != 0x80) {
        return 0;
    }
    *size = 4;
    character = (first & 0x07) << 18 | (uint32_t)(at[1] & 0x3f) << 12
                | (uint32_t)(at[2] & 0x3f) << 6 | (at[3] & 0x3f);
    return character < 0x10000 || character > 0x10ffff ? 0 : character;
}

DEFINE_DECODE(decode_narrow, Py_UCS1)
DEFINE_DECODE(decode_wide, Py_UCS2)
DEFINE_DECODE(decode_widest, Py_UCS4)

/* How many characters begin in the data, and the largest byte. A compiler makes vector code of
   the inner loop, since a byte is enough to count in. */
static void
look_at(const unsigned char *data, Py_ssize_t size, Py_ssize_t *count, unsigned char *largest)
{
    enum { BLOCK = 128 };
    *count = 0;
    *largest = 0;
    while (size > 0) {
        Py_ssize_t some = size < BLOCK ? size : BLOCK;
        unsigned char begin = 0, most = 0;
        for (Py_ssize_t n = 0; n < some; n++) {
            begin = (unsigned char)(begin + ((signed char)data[n] >= -64));
            most = data[n] > most ? data[n] : most;
        }
        *count += begin;
        *largest = most > *largest ? most : *largest;
        data += some;
        size -= some;
    }
}

static PyObject *
decoded(const unsigned char *data, Py_ssize_t size)
{
    Py_ssize_t count;
    unsigned char largest;
    look_at(data, size, &count, &largest);
    Py_UCS4 widest = largest < 0xc4 ? 0xff : largest < 0xf0 ? 0xffff : 0x10ffff;
    PyObject *text = PyUnicode_New(count, widest);
    if (text == NULL) {
        return NULL;
    }
    const unsigned char *end = data + size;
    int valid = widest == 0xff     ? decode_narrow(data, end, PyUnicode_1BYTE_DATA(text))
                : widest == 0xffff ? decode_wide(data, end, PyUnicode_2BYTE_DATA(text))
                                   : decode_widest(data, end, PyUnicode_4BYTE_DATA(text));
    if (!valid) {
        Py_DECREF(text);
        return malformed();
    }
    return text;
}

static inline int
is_ascii(const unsigned char *data, Py_ssize_t size)
{
    uint64_t seen = 0, word;
#ifdef __SSE2__ /* which a compiler does not find by itself */
    __m128i many = _mm_setzero_si128();
    for (; size >= 32; size -= 32, data += 32) {
        __m128i first = _mm_loadu_si128((const __m128i *)data);
        __m128i second = _mm_loadu_si128((const __m128i *)(data + 16));
        many = _mm_or_si128(many, _mm_or_si128(first, second));
    }
    if (_mm_movemask_epi8(many) != 0) {
        return 0;
    }
#endif
    for (; size >= 8; size -= 8, data += 8) {
        memcpy(&word, data, 8);
        seen |= word;
    }
    for (; size > 0; size--, data++) {
        seen |= *data;
    }
    return (seen & UINT64_C(0x8080808080808080)) == 0;
}

static PyObject *
read_text(Reader *reader, uint64_t length)
{
    if (length > (uint64_t)left(reader)) {
        return malformed();
    }
    const unsigned char *data = reader->at;
    Py_ssize_t size = (Py_ssize_t)length;
    reader->at += size;
    if (!is_ascii(data, size)) {
        /* One character may be one that Python shares. */
        return size > 2 ? decoded(data, size)
                        : PyUnicode_DecodeUTF8((const char *)data, size, NULL);
    }
    if (size < 2) {
        return PyUnicode_FromStringAndSize((const char *)data, size);
    }
    PyObject *text = PyUnicode_New(size, 0x7f);
    if (text != NULL) {
        memcpy(PyUnicode_1BYTE_DATA(text), data, (size_t)size);
    }
    return text;
}

static inline int
is_same(PyObject *known, const unsigned char *data, Py_ssize_t size)
{
    return PyUnicode_GET_LENGTH(known) == size
           && memcmp(PyUnicode_1BYTE_DATA(known), data, (size_t)size) == 0;
}

/* A text that is the same object each time, if it is not too long. */
static PyObject *
read_word(Reader *reader, uint64_t length, uint64_t longest)
{
    if (reader->words == NULL || length == 0 || length > longest
        || length > (uint64_t)left(reader)) {
        return read_text(reader, length);
    }
    const unsigned char *data = reader->at;
    Py_ssize_t size = (Py_ssize_t)length;
    unsigned place = (unsigned)size + 31u * data[0] + 7u * data[size / 2] + 61u * data[size - 1];
    PyObject **slot = &reader->words[place % WORDS];
    if (*slot != NULL && is_same(*slot, data, size)) {
        reader->at += size;
        return Py_NewRef(*slot);
    }
    PyObject *word = read_text(reader, length);
    if (word != NULL && PyUnicode_IS_COMPACT_ASCII(word)) {
        Py_XSETREF(*slot, Py_NewRef(word));
    }
    return word;
}

static PyObject *
read_bytes(Reader *reader, uint64_t length)
{
    if (length > (uint64_t)left(reader)) {
        return malformed();
    }
    const unsigned char *data = reader->at;
    reader->at += length;
    return PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)length);
}

/* -- containers */

/* Whether so many more members can be there at all. */
static inline int
claim(Reader *reader, uint64_t members, int lists)
{
    Py_ssize_t spare = left(reader) - reader->owed; /* less than none, once some cannot be there */
    if ((lists > MOST_LISTS_READ && members > 0) || spare < 0 || members > (uint64_t)spare) {
        malformed();
        return 0;
    }
    reader->owed += (Py_ssize_t)members;
    return 1;
}

static PyObject *
read_list(Reader *reader, uint64_t count, int lists)
{
    if (!claim(reader, count, lists)) {
        return NULL;
    }
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (Py_ssize_t n = 0; list != NULL && n < (Py_ssize_t)count; n++) {
        reader->owed -= 1;
        PyObject *member = read_value(reader, lists);
        if (member == NULL) {
            Py_CLEAR(list);
        }
        else {
            PyList_SET_ITEM(list, n, member);
        }
    }
    return list;
}

/* The number of members in the head of a list; false if there is none. */
static int
list_head(Reader *reader, uint64_t *count)
{
    if (left(reader) < 1) {
        return 0;
    }
    unsigned char head = *reader->at++;
    if (head >= 0x90 && head < 0xa0) {
        *count = head & 0x0f;
        return 1;
    }
    return (head == 0xdc && take(reader, 2, count)) || (head == 0xdd && take(reader, 4, count));
}

static PyObject *read_key(Reader *reader, int lists);

/* A list as a key is a tuple, of what may be a key. None is written so, but ormsgpack reads it. */
static PyObject *
read_list_as_key(Reader *reader, int lists)
{
    uint64_t count;
    if (!list_head(reader, &count)) {
        return malformed();
    }
    if (!claim(reader, count, lists)) {
        return NULL;
    }
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t n = 0; tuple != NULL && n < (Py_ssize_t)count; n++) {
        reader->owed -= 1;
        PyObject *member = read_key(reader, lists);
        if (member == NULL) {
            Py_CLEAR(tuple);
        }
        else {
            PyTuple_SET_ITEM(tuple, n, member);
        }
    }
    return tuple;
}

/* A key of the kinds that are written as such; others are pairs, in an extension. */
static PyObject *
read_key(Reader *reader, int lists)
{
    if (left(reader) < 1) {
        return malformed();
    }
    unsigned char head = *reader->at;
    if (head >= 0xa0 && head < 0xc0) {
        reader->at += 1;
        return read_word(reader, head & 0x1f, LONGEST_KEY);
    }
    if (head == 0xd9 && left(reader) >= 2) {
        uint64_t length = reader->at[1];
        reader->at += 2;
        return read_word(reader, length, LONGEST_KEY);
    }
    if ((head >= 0x90 && head < 0xa0) || head == 0xdc || head == 0xdd) {
        return read_list_as_key(reader, lists + 1);
    }
    if ((head >= 0x80 && head < 0x90) || (head >= 0xc7 && head < 0xca)
        || (head >= 0xd4 && head < 0xd9) || head == 0xde || head == 0xdf) {
        return malformed();
    }
    return read_value(reader, 0);
}

/* The value of a key. Short texts recur among those of dicts; in a list they need not. */
static inline PyObject *
read_member(Reader *reader, int lists)
{
    if (left(reader) > 0 && *reader->at >= 0xa0 && *reader->at < 0xc0) {
        return read_word(reader, *reader->at++ & 0x1f, LONGEST_WORD);
    }
    return read_value(reader, lists);
}

/* Adds the members of a dict; false if there are none, or fewer. */
static int
read_members(Reader *reader, PyObject *dict, uint64_t count, int lists)
{
    for (uint64_t n = 0; n < count; n++) {
        reader->owed -= 1;
        PyObject *key = read_key(reader, lists);
        reader->owed -= 1;
        PyObject *member = key == NULL ? NULL : read_member(reader, lists);
        int is_set = member != NULL && PyDict_SetItem(dict, key, member) == 0;
        Py_XDECREF(key);
        Py_XDECREF(member);
        if (!is_set) {
            return 0;
        }
    }
    return 1;
}

static PyObject *
read_dict(Reader *reader, uint64_t count, int lists)
{
    if (!claim(reader, 2 * count, lists)) {
        return NULL;
    }
    PyObject *dict = PyDict_New();
    if (dict != NULL && !read_members(reader, dict, count, lists)) {
        Py_CLEAR(dict);
    }
    return dict;
}

static PyObject *
read_tuple(Reader *reader, Py_ssize_t size)
{
    Reader inner = *reader;
    inner.end = reader->at + size;
    inner.owed = 0;
    inner.depth += 1;
    uint64_t count;
    if (!list_head(&inner, &count)) {
        return malformed();
    }
    if (!claim(&inner, count, 1)) {
        return NULL;
    }
    PyObject *tuple = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t n = 0; tuple != NULL && n < (Py_ssize_t)count; n++) {
        inner.owed -= 1;
        PyObject *member = read_value(&inner, 1);
        if (member == NULL) {
            Py_CLEAR(tuple);
        }
        else {
            PyTuple_SET_ITEM(tuple, n, member);
        }
    }
    if (tuple != NULL && inner.at != inner.end) {
        Py_DECREF(tuple);
        return malformed();
    }
    reader->at = inner.at;
    reader->hook_failed = inner.hook_failed;
    return tuple;
}

/* -- objects */

/* Whether the next key is this name: if it is, it has been read. */
static inline int
take_name(Reader *reader, PyObject *name)
{
    Py_ssize_t size = PyUnicode_IS_COMPACT_ASCII(name) ? PyUnicode_GET_LENGTH(name) : -1;
    int head = size < 32 ? 1 : 2; /* where the text begins */
    if (size < 0 || size > 255 || left(reader) < head + size
        || (head == 1 ? reader->at[0] != (0xa0 | size)
                      : reader->at[0] != 0xd9 || reader->at[1] != size)
        || memcmp(reader->at + head, PyUnicode_1BYTE_DATA(name), (size_t)size) != 0) {
        return 0;
    }
    reader->at += head + size;
    return 1;
}

/* A dict, which mostly has the keys of `fields` and in that order: then `are_those` is true. */
static PyObject *
read_fields(Reader *reader, PyObject *fields, int *are_those)
{
    *are_those = 0;
    uint64_t count = PyDict_GET_SIZE(fields);
    int is_short = left(reader) > 0 && count < 16 && *reader->at == (0x80 | count);
    if (!is_short
        && (left(reader) < 3 || *reader->at != 0xde || peek(reader->at + 1, 2) != count)) {
        return read_value(reader, 1);
    }
    reader->at += is_short ? 1 : 3;
    if (!claim(reader, 2 * count, 2)) {
        return NULL;
    }
    /* With the keys in it: as it grew, it would be made larger twice. */
    PyObject *dict = PyDict_Copy(fields);
    PyObject *name, *none;
    Py_ssize_t place = 0;
    uint64_t n = 0;
    for (; dict != NULL && PyDict_Next(fields, &place, &name, &none); n++) {
        if (!take_name(reader, name)) {
            break;
        }
        reader->owed -= 2;
        PyObject *member = read_member(reader, 2);
        if (member == NULL || PyDict_SetItem(dict, name, member) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(member);
    }
    *are_those = n == count;
    if (dict == NULL || *are_those) {
        return dict;
    }
    PyObject *other = PyDict_New();
    place = 0;
    for (uint64_t known = 0; other != NULL && known < n; known++) {
        PyDict_Next(fields, &place, &name, &none);
        if (PyDict_SetItem(other, name, PyDict_GetItemWithError(dict, name)) < 0) {
            Py_CLEAR(other);
        }
    }
    if (other != NULL && !read_members(reader, other, count - n, 2)) {
        Py_CLEAR(other);
    }
    Py_DECREF(dict);
    return other;
}

enum { OF_CLS, OF_FIELDS, OF_GIVEN, OF_TAKES_EXTRA, OF_SLOTS, DECODER_SIZE };

/* Whether this is a FieldsDecoder (milepost/checkpoint/serde/_types/models.py). */
static int
decodes_fields(PyObject *decoder)
{
    if (!PyTuple_Check(decoder) || PyTuple_GET_SIZE(decoder) < DECODER_SIZE) {
        return 0;
    }
    PyObject *cls = PyTuple_GET_ITEM(decoder, OF_CLS);
    return PyType_Check(cls) && ((PyTypeObject *)cls)->tp_new == PyBaseObject_Type.tp_new
           && PyDict_CheckExact(PyTuple_GET_ITEM(decoder, OF_FIELDS));
}

/* A pydantic model, as the FieldsDecoder makes it of these fields. */
static PyObject *
make_model(PyObject *decoder, PyObject *fields)
{
    int takes_extra = PyTuple_GET_ITEM(decoder, OF_TAKES_EXTRA) == Py_True;
    PyObject *values[SLOTS] = {
        [GIVEN] = PySet_New(PyTuple_GET_ITEM(decoder, OF_GIVEN)),
        [EXTRA] = takes_extra ? PyDict_New() : Py_NewRef(Py_None),
        [PRIVATE] = Py_NewRef(Py_None),
        [FIELDS] = Py_NewRef(fields),
    };
    PyTypeObject *cls = (PyTypeObject *)PyTuple_GET_ITEM(decoder, OF_CLS);
    return new_model(cls, PyTuple_GET_ITEM(decoder, OF_SLOTS), values);
}

/* What decodes the object of a pair that begins here, which is then read up to its fields; NULL
   without an exception if that is not known. */
static PyObject *
find_decoder(Reader *inner)
{
    if (left(inner) < 3 || inner->at[0] != 0x92) {
        return NULL;
    }
    unsigned char head = inner->at[1];
    int is_short = head >= 0xa0 && head < 0xc0;
    if (!is_short && head != 0xd9) {
        return NULL;
    }
    Py_ssize_t length = is_short ? head & 0x1f : inner->at[2];
    inner->at += is_short ? 2 : 3;
    PyObject *tag = read_word(inner, (uint64_t)length, LONGEST_TAG);
    if (tag == NULL) {
        return NULL;
    }
    PyObject *decoder = PyDict_GetItemWithError(inner->known, tag);
    Py_XINCREF(decoder); /* it may be forgotten while the fields are read */
    Py_DECREF(tag);
    return decoder;
}

/* An object: its tag and its fields. NULL without an exception if its hook must read it. */
static PyObject *
read_object(Reader *reader, Py_ssize_t size)
{
    Reader inner = *reader;
    inner.end = reader->at + size;
    inner.owed = 0;
    inner.depth += 1;
    PyObject *decoder = find_decoder(&inner);
    if (decoder == NULL) {
        reader->hook_failed = PyErr_Occurred() != NULL;
        return NULL;
    }
    int is_model = decodes_fields(decoder), are_those = 0;
    PyObject *fields = is_model
                           ? read_fields(&inner, PyTuple_GET_ITEM(decoder, OF_FIELDS), &are_those)
                           : read_value(&inner, 1);
    PyObject *value = NULL;
    if (fields != NULL && inner.at != inner.end) {
        malformed();
    }
    else if (fields != NULL) {
        value = are_those ? make_model(decoder, fields) : PyObject_CallOneArg(decoder, fields);
    }
    Py_XDECREF(fields);
    Py_DECREF(decoder);
    reader->at = inner.at;
    reader->hook_failed = value == NULL;
    return value;
}

static PyObject *
read_extension(Reader *reader, uint64_t length)
{
    if (left(reader) < 1 || length > (uint64_t)left(reader) - 1) {
        return malformed();
    }
    int code = (signed char)*reader->at++;
    if (reader->depth + 1 < PyTuple_GET_SIZE(reader->hooks) && reader->depth < MOST_TUPLES) {
        if (code == CODE_OF_TUPLE) {
            return read_tuple(reader, (Py_ssize_t)length);
        }
        if (code == CODE_OF_RECORD && reader->known != NULL) {
            PyObject *object = read_object(reader, (Py_ssize_t)length);
            if (object != NULL || PyErr_Occurred()) {
                return object;
            }
        }
    }
    PyObject *number = PyLong_FromLong(code);
    if (number == NULL) {
        return NULL;
    }
    PyObject *payload = read_bytes(reader, length);
    PyObject *value = NULL;
    if (payload != NULL) {
        PyObject *hook = PyTuple_GET_ITEM(reader->hooks, reader->depth);
        value = PyObject_CallFunctionObjArgs(hook, number, payload, NULL);
        reader->hook_failed = value == NULL;
        Py_DECREF(payload);
    }
    Py_DECREF(number);
    return value;
}

/* -- any value */

static PyObject *
read_float(Reader *reader, int width)
{
    uint64_t bits;
    if (!take(reader, width, &bits)) {
        return malformed();
    }
    if (width == 4) {
        uint32_t half = (uint32_t)bits;
        float number;
        memcpy(&number, &half, sizeof number);
        return PyFloat_FromDouble((double)number);
    }
    double number;
    memcpy(&number, &bits, sizeof number);
    return PyFloat_FromDouble(number);
}

static PyObject *
read_int(Reader *reader, int width, int is_signed)
{
    uint64_t bits;
    if (!take(reader, width, &bits)) {
        return malformed();
    }
    if (!is_signed) {
        return PyLong_FromUnsignedLongLong(bits);
    }
    int shift = 64 - 8 * width;
    return PyLong_FromLongLong((int64_t)(bits << shift) >> shift);
}

static PyObject *
read_value(Reader *reader, int lists)
{
    if (left(reader) < 1) {
        return malformed();
    }
    unsigned char head = *reader->at++;
    if (head < 0x80) {
        return PyLong_FromLong(head);
    }
    if (head < 0x90) {
        return read_dict(reader, head & 0x0f, lists + 1);
    }
    if (head < 0xa0) {
        return read_list(reader, head & 0x0f, lists + 1);
    }
    if (head < 0xc0) {
        return read_text(reader, head & 0x1f);
    }
    if (head >= 0xe0) {
        return PyLong_FromLong((signed char)head);
    }
    uint64_t size;
    switch (head) {
    case 0xc0: Py_RETURN_NONE;
    case 0xc2: Py_RETURN_FALSE;
    case 0xc3: Py_RETURN_TRUE;
    case 0xc4:
    case 0xc5:
    case 0xc6: return take(reader, 1 << (head - 0xc4), &size) ? read_bytes(reader, size) : malformed();
    case 0xc7:
    case 0xc8:
    case 0xc9: return take(reader, 1 << (head - 0xc7), &size) ? read_extension(reader, size) : malformed();
    case 0xca: return read_float(reader, 4);
    case 0xcb: return read_float(reader, 8);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf: return read_int(reader, 1 << (head - 0xcc), 0);
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3: return read_int(reader, 1 << (head - 0xd0), 1);
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8: return read_extension(reader, UINT64_C(1) << (head - 0xd4));
    case 0xd9:
    case 0xda:
    case 0xdb: return take(reader, 1 << (head - 0xd9), &size) ? read_text(reader, size) : malformed();
    case 0xdc:
    case 0xdd: return take(reader, 2 << (head - 0xdc), &size) ? read_list(reader, size, lists + 1) : malformed();
    case 0xde:
    case 0xdf: return take(reader, 2 << (head - 0xde), &size) ? read_dict(reader, size, lists + 1) : malformed();
    default: return malformed();
    }
}

static void
forget(PyObject **words)
{
    for (int n = 0; n < WORDS; n++) {
        Py_XDECREF(words[n]);
    }
}

static PyObject *
read_whole(const unsigned char *data, Py_ssize_t size, PyObject *hooks, PyObject *known)
{
    Reader reader = {.at = data, .end = data + size, .hooks = hooks, .known = known};
    PyObject *words[WORDS];
    if (size >= WORTH_WORDS) {
        memset(words, 0, sizeof words);
        reader.words = words;
    }
    PyObject *value = read_value(&reader, 0);
    if (size >= WORTH_WORDS) {
        forget(words);
    }
    if (value != NULL && reader.at != reader.end) {
        Py_DECREF(value);
        return malformed();
    }
    return value;
}

/* A list, of which each element is in one of the pieces. To join long ones would cost as much room
   again, and the system takes longer to give that than reading takes. */
static PyObject *
read_pieces(PyObject *pieces, PyObject *hooks, PyObject *known)
{
    PyObject *words[WORDS] = {NULL}, *list = PyList_New(0);
    Reader reader = {.hooks = hooks, .known = known, .words = words};
    uint64_t lacking = 1; /* a head */
    int is_sound = list != NULL;
    for (Py_ssize_t n = 0; is_sound && n < PyTuple_GET_SIZE(pieces); n++) {
        Py_buffer view;
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(pieces, n), &view, PyBUF_SIMPLE) < 0) {
            is_sound = 0;
            break;
        }
        reader.at = view.buf;
        reader.end = reader.at + view.len;
        if (n == 0 && !list_head(&reader, &lacking)) {
            is_sound = 0;
            malformed();
        }
        while (is_sound && reader.at != reader.end) {
            PyObject *member = lacking-- == 0 ? malformed() : read_value(&reader, 1);
            is_sound = member != NULL && PyList_Append(list, member) == 0;
            Py_XDECREF(member);
        }
        PyBuffer_Release(&view);
    }
    forget(words);
    if (is_sound && lacking > 0) {
        is_sound = 0;
        malformed();
    }
    if (!is_sound) {
        Py_CLEAR(list);
    }
    return list;
}

/* unpack(data, hooks) or unpack(data, hooks, known); `data` may be a tuple of pieces. */
PyObject *
native_unpack(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyObject *known = count == 3 ? args[2] : NULL;
    if (count < 2 || count > 3 || !PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[1]) == 0
        || (known != NULL && !PyDict_CheckExact(known))) {
        PyErr_SetString(
            PyExc_TypeError, "unpack takes bytes, a tuple of hooks and perhaps a dict of decoders");
        return NULL;
    }
    if (PyTuple_CheckExact(args[0])) {
        return read_pieces(args[0], args[1], known);
    }
    Py_buffer view;
    if (PyObject_GetBuffer(args[0], &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    PyObject *value = read_whole(view.buf, view.len, args[1], known);
    PyBuffer_Release(&view);
    return value;
}
