/*
 * text.h: strings that say what they hold, for workloads that make very many of them, and what is
 * resident over such a run.
 *
 * A string's length and letters follow from its number alone, so who frees it can tell whether it
 * is the one that was made, whole. Sizes count the ending zero.
 */
#ifndef CALM_BENCH_TEXT_H
#define CALM_BENCH_TEXT_H

#include "workload.h"

static inline uint64_t text_mix(uint64_t number)
{
    return random_stream(number, 0);
}

static inline size_t text_bytes(uint64_t number, uint32_t bytes_min, uint32_t bytes_max)
{
    uint32_t span = bytes_max - bytes_min + 1;
    return bytes_min + (uint32_t)(((text_mix(number) >> 32) * span) >> 32);
}

static inline char text_letter(uint64_t mixed, size_t at)
{
    return (char)('a' + ((mixed >> at % 56) & 15));
}

static inline char *text_new(uint64_t number, uint32_t bytes_min, uint32_t bytes_max)
{
    size_t bytes = text_bytes(number, bytes_min, bytes_max);
    uint64_t mixed = text_mix(number);
    char *text = malloc(bytes);
    if (text == NULL)
        fail("malloc(%zu) returned NULL", bytes);
    for (size_t i = 0; i + 1 < bytes; i++)
        text[i] = text_letter(mixed, i);
    text[bytes - 1] = '\0';
    return text;
}

/* Stops the program unless `text` is string `number`; returns its bytes for the caller's sum. */
static inline uint64_t text_verify(const char *text, uint64_t number, uint32_t bytes_min,
                                   uint32_t bytes_max)
{
    size_t bytes = text_bytes(number, bytes_min, bytes_max);
    uint64_t mixed = text_mix(number), sum = bytes;
    for (size_t i = 0; i + 1 < bytes; i++) {
        if (text[i] != text_letter(mixed, i))
            fail("byte %zu of string %llu changed", i, (unsigned long long)number);
        sum += (unsigned char)text[i];
    }
    if (text[bytes - 1] != '\0')
        fail("the end of string %llu changed", (unsigned long long)number);
    return sum;
}

/* --- readings of what is resident, evenly over a run: seconds and KiB --- */

enum { READINGS = 50, READINGS_JUDGED = 10 };

static inline int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static inline double readings_median(const double (*readings)[2])
{
    double sorted[READINGS_JUDGED];
    for (unsigned i = 0; i < READINGS_JUDGED; i++)
        sorted[i] = readings[i][1];
    qsort(sorted, READINGS_JUDGED, sizeof *sorted, compare_doubles);
    return sorted[READINGS_JUDGED / 2];
}

/* The drift is what the last ten readings have more than the second ten; the first are warm-up. */
static inline void result_readings(const double (*readings)[2])
{
    double early = readings_median(readings + READINGS_JUDGED), max = 0;
    double late = readings_median(readings + READINGS - READINGS_JUDGED);
    for (unsigned i = 0; i < READINGS; i++)
        max = readings[i][1] > max ? readings[i][1] : max;
    result_number("resident_max_kib", max);
    result_number("resident_end_kib", late);
    result_number("resident_drift_kib", late - early);
    result_series("resident_kib", readings, READINGS);
}

#endif
