/* CRC-32 with the multiplication that most processors have for it: a large row is read three times
   as fast as with zlib's tables.

   A message is a polynomial over two elements, its checksum the remainder of a division. Sixteen
   bytes are moved forward, past bytes that follow, by multiplying their halves with the remainders
   of powers of x, and added there; so four lanes take 64 bytes a time, until 16 are left, and these
   are divided by multiplication with an inverse. */

#include "native.h"

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define WITH_MULTIPLICATION __attribute__((target("pclmul,sse4.1")))

WITH_MULTIPLICATION static inline __m128i
forward(__m128i lane, __m128i by, __m128i onto)
{
    __m128i low = _mm_clmulepi64_si128(lane, by, 0x00), high = _mm_clmulepi64_si128(lane, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

WITH_MULTIPLICATION static inline __m128i
lane_at(const unsigned char *at)
{
    return _mm_loadu_si128((const __m128i *)at);
}

WITH_MULTIPLICATION uint32_t
sum_of_lanes(uint32_t sum, const unsigned char *at, Py_ssize_t size)
{
    const __m128i past_four = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i past_one = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i past_half = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i division = _mm_set_epi64x(0x1f7011641, 0x1db710641); /* inverse, and divisor */
    const __m128i words = _mm_setr_epi32(-1, 0, -1, 0);

    __m128i a = _mm_xor_si128(lane_at(at), _mm_cvtsi32_si128((int)sum));
    __m128i b = lane_at(at + LANE), c = lane_at(at + 2 * LANE), d = lane_at(at + 3 * LANE);
    for (at += LANES, size -= LANES; size >= LANES; at += LANES, size -= LANES) {
        a = forward(a, past_four, lane_at(at));
        b = forward(b, past_four, lane_at(at + LANE));
        c = forward(c, past_four, lane_at(at + 2 * LANE));
        d = forward(d, past_four, lane_at(at + 3 * LANE));
    }
    a = forward(forward(forward(a, past_one, b), past_one, c), past_one, d);
    for (; size >= LANE; at += LANE, size -= LANE) {
        a = forward(a, past_one, lane_at(at));
    }
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, past_one, 0x10));
    a = _mm_xor_si128(_mm_srli_si128(a, 4),
                      _mm_clmulepi64_si128(_mm_and_si128(a, words), past_half, 0x00));
    b = _mm_clmulepi64_si128(_mm_and_si128(a, words), division, 0x10);
    b = _mm_clmulepi64_si128(_mm_and_si128(b, words), division, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, b), 1);
}

int
has_lanes(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

#else

uint32_t
sum_of_lanes(uint32_t sum, const unsigned char *Py_UNUSED(at), Py_ssize_t Py_UNUSED(size))
{
    return sum;
}

int
has_lanes(void)
{
    return 0;
}

#endif
