// Compares the memory functions of static programs with loops over single bytes, for all short lengths and positions.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define LENGTH_MAX 700

void *tested_memcpy(void *to, const void *from, size_t length);
void *tested_memmove(void *to, const void *from, size_t length);
int tested_memcmp(const void *left, const void *right, size_t length);
int tested_bcmp(const void *left, const void *right, size_t length);

static unsigned next(void) {
    static uint32_t state = 1;
    state = state * 1664525 + 1013904223;
    return state >> 24;
}

static int fail(const char *function, size_t length, size_t first, size_t second) {
    printf("%s is wrong: %zu bytes, %zu and %zu\n", function, length, first, second);
    return 1;
}

// Returns memory of exactly this length with arbitrary bytes, so that the sanitizer notices an access beyond it.
static unsigned char *arbitrary(size_t length) {
    unsigned char *bytes = malloc(length + !length);
    for (size_t at = 0; at < length; at++) {
        bytes[at] = (unsigned char)next();
    }
    return bytes;
}

static int is_equal(const unsigned char *left, const unsigned char *right, size_t length) {
    for (size_t at = 0; at < length; at++) {
        if (left[at] != right[at]) {
            return 0;
        }
    }
    return 1;
}

// Copies within memory that has both ranges and nothing else, and to memory of its own.
static int check_copies(size_t length, size_t from, size_t to) {
    size_t room = length + (from > to ? from : to);
    unsigned char *actual = arbitrary(room), *expected = malloc(room + !room), *apart = arbitrary(length);
    for (size_t at = 0; at < room; at++) {
        expected[at] = actual[at];
    }
    for (size_t at = 0; at < length; at++) {
        expected[to + at] = actual[from + at];
    }
    int is_right = tested_memcpy(apart, actual + from, length) == apart && is_equal(apart, actual + from, length);
    is_right &= tested_memmove(actual + to, actual + from, length) == actual + to && is_equal(actual, expected, room);
    free(actual);
    free(expected);
    free(apart);
    return is_right ? 0 : fail("memcpy or memmove", length, from, to);
}

static int sign(int number) { return (number > 0) - (number < 0); }

// The bytes are equal before `differs`, and arbitrary after it.
static int check_comparison(size_t length, size_t differs, size_t shift) {
    unsigned char *left = arbitrary(shift + length), *right = arbitrary(length);
    const unsigned char *a = left + shift;
    int result = 0;
    for (size_t at = 0; at < length && at < differs; at++) {
        right[at] = a[at];
    }
    if (differs < length) {
        right[differs] = (unsigned char)(a[differs] + 1 + next() % 255);
        result = a[differs] < right[differs] ? -1 : 1;
    }
    int is_right = sign(tested_memcmp(a, right, length)) == result;
    is_right &= (tested_bcmp(a, right, length) != 0) == (result != 0);
    free(left);
    free(right);
    return is_right ? 0 : fail("memcmp or bcmp", length, differs, shift);
}

int main(void) {
    for (size_t length = 0; length <= LENGTH_MAX; length++) {
        // All distances for short copies, and the most interesting ones for longer copies.
        size_t step = length <= 140 ? 1 : 41;
        for (size_t distance = 0; distance <= length + 20; distance += step) {
            if (check_copies(length, 0, distance) || check_copies(length, distance, 0)) {
                return 1;
            }
        }
    }
    for (size_t length = 0; length <= 100; length++) {
        for (size_t differs = 0; differs <= length; differs++) {
            if (check_comparison(length, differs, differs % 16)) {
                return 1;
            }
        }
    }
    printf("all are right\n");
    return 0;
}
