// memcpy, memmove and memcmp for static programs on x86-64, because those of musl are written for size.
//
// It copies by `rep movsq`, which takes 60 to 130 ns to start, however short the copy is, and compares byte by byte. A response over
// HTTP/2 takes several copies of a few dozen bytes, and finding a path is a comparison.
//
// The C library copies before thread-local memory exists, so these functions must not look for a stack canary there.
//
// All instructions are those that each processor for x86-64 has. Compile without replacing loops by calls: these functions would call
// themselves.

#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>

typedef unsigned char byte;

#define EARLY __attribute__((no_stack_protector))

// Numbers that may be anywhere, and alias anything.
typedef struct { uint16_t value; } __attribute__((packed, may_alias)) two;
typedef struct { uint32_t value; } __attribute__((packed, may_alias)) four;
typedef struct { uint64_t value; } __attribute__((packed, may_alias)) eight;

static inline __m128i load(const byte *from) { return _mm_loadu_si128((const __m128i *)from); }
static inline void store(byte *to, __m128i block) { _mm_storeu_si128((__m128i *)to, block); }

// Copies up to 16 bytes. All of them are loaded before the first is stored, so they may overlap.
static inline void copy_short(byte *to, const byte *from, size_t length) {
    if (length >= 8) {
        uint64_t first = ((const eight *)from)->value;
        uint64_t last = ((const eight *)(from + length - 8))->value;
        ((eight *)to)->value = first;
        ((eight *)(to + length - 8))->value = last;
    } else if (length >= 4) {
        uint32_t first = ((const four *)from)->value;
        uint32_t last = ((const four *)(from + length - 4))->value;
        ((four *)to)->value = first;
        ((four *)(to + length - 4))->value = last;
    } else if (length >= 2) {
        uint16_t first = ((const two *)from)->value;
        uint16_t last = ((const two *)(from + length - 2))->value;
        ((two *)to)->value = first;
        ((two *)(to + length - 2))->value = last;
    } else if (length == 1) {
        *to = *from;
    }
}

// Copies 17 to 128 bytes. All of them are loaded before the first is stored, so they may overlap.
static inline void copy_medium(byte *to, const byte *from, size_t length) {
    const byte *from_end = from + length;
    byte *to_end = to + length;
    __m128i a = load(from), z = load(from_end - 16);
    if (length > 32) {
        __m128i b = load(from + 16), y = load(from_end - 32);
        if (length > 64) {
            __m128i c = load(from + 32), d = load(from + 48), w = load(from_end - 64), x = load(from_end - 48);
            store(to + 32, c);
            store(to + 48, d);
            store(to_end - 64, w);
            store(to_end - 48, x);
        }
        store(to + 16, b);
        store(to_end - 32, y);
    }
    store(to, a);
    store(to_end - 16, z);
}

// Copies more than 128 bytes upwards. The destination is either below the source, or doesn't overlap it.
static inline void copy_up(byte *to, const byte *from, size_t length) {
    // The first and last blocks are loaded before they can be overwritten.
    __m128i first = load(from);
    const byte *from_end = from + length;
    byte *to_end = to + length;
    __m128i w = load(from_end - 64), x = load(from_end - 48), y = load(from_end - 32), z = load(from_end - 16);
    byte *at = (byte *)(((uintptr_t)to | 15) + 1);
    from += at - to;
    for (; at < to_end - 64; at += 64, from += 64) {
        __m128i a = load(from), b = load(from + 16), c = load(from + 32), d = load(from + 48);
        _mm_store_si128((__m128i *)at, a);
        _mm_store_si128((__m128i *)(at + 16), b);
        _mm_store_si128((__m128i *)(at + 32), c);
        _mm_store_si128((__m128i *)(at + 48), d);
    }
    store(to_end - 64, w);
    store(to_end - 48, x);
    store(to_end - 32, y);
    store(to_end - 16, z);
    store(to, first);
}

// Copies more than 128 bytes downwards. The destination is above the source.
static inline void copy_down(byte *to, const byte *from, size_t length) {
    __m128i a = load(from), b = load(from + 16), c = load(from + 32), d = load(from + 48);
    __m128i last = load(from + length - 16);
    byte *to_end = to + length;
    byte *at = (byte *)((uintptr_t)(to_end - 1) & ~(uintptr_t)15);
    from += at - to;
    for (; at > to + 64; at -= 64, from -= 64) {
        __m128i w = load(from - 64), x = load(from - 48), y = load(from - 32), z = load(from - 16);
        _mm_store_si128((__m128i *)(at - 16), z);
        _mm_store_si128((__m128i *)(at - 32), y);
        _mm_store_si128((__m128i *)(at - 48), x);
        _mm_store_si128((__m128i *)(at - 64), w);
    }
    store(to, a);
    store(to + 16, b);
    store(to + 32, c);
    store(to + 48, d);
    store(to_end - 16, last);
}

EARLY void *memmove(void *to, const void *from, size_t length) {
    if (length <= 16) {
        copy_short(to, from, length);
    } else if (length <= 128) {
        copy_medium(to, from, length);
    } else if ((uintptr_t)to - (uintptr_t)from >= length) {
        copy_up(to, from, length);
    } else {
        copy_down(to, from, length);
    }
    return to;
}

EARLY void *memcpy(void *restrict to, const void *restrict from, size_t length) {
    return memmove(to, from, length);
}

// Returns the difference of two numbers whose first byte in memory is the most significant one.
static inline int compare_eight(uint64_t a, uint64_t b) {
    a = __builtin_bswap64(a);
    b = __builtin_bswap64(b);
    return (a > b) - (a < b);
}

// Compares 16 bytes.
static inline int compare_block(const byte *a, const byte *b) {
    unsigned equal = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(load(a), load(b)));
    if (equal == 0xffff) {
        return 0;
    }
    int first = __builtin_ctz(~equal);
    return a[first] - b[first];
}

EARLY int memcmp(const void *left, const void *right, size_t length) {
    const byte *a = left, *b = right;
    if (length < 8) {
        for (size_t at = 0; at < length; at++) {
            if (a[at] != b[at]) {
                return a[at] - b[at];
            }
        }
        return 0;
    }
    if (length < 16) {
        int first = compare_eight(((const eight *)a)->value, ((const eight *)b)->value);
        size_t rest = length - 8;
        return first ? first : compare_eight(((const eight *)(a + rest))->value, ((const eight *)(b + rest))->value);
    }
    for (size_t at = 0; at < length - 16; at += 16) {
        int difference = compare_block(a + at, b + at);
        if (difference) {
            return difference;
        }
    }
    return compare_block(a + length - 16, b + length - 16);
}

EARLY int bcmp(const void *left, const void *right, size_t length) {
    return memcmp(left, right, length);
}
