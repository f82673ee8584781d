/*
 * crc32c.c: CRC-32C, eight bytes a step, by tables that the first call fills.
 */
#include "crc32c.h"

#include <pthread.h>

enum { TABLES = 8, POLYNOMIAL_BITS = 8 };

#define POLYNOMIAL 0x82F63B78u /* Castagnoli's, lowest bit first */

static uint32_t tables[TABLES][256];

static void fill(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < POLYNOMIAL_BITS; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        tables[0][byte] = crc;
    }
    for (int table = 1; table < TABLES; table++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = tables[table - 1][byte];
            tables[table][byte] = crc >> 8 ^ tables[0][crc & 0xFF];
        }
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t count)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const unsigned char *at = bytes;
    pthread_once(&once, fill);
    crc = ~crc;
    for (; count >= TABLES; count -= TABLES, at += TABLES) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                              (uint32_t)at[3] << 24);
        crc = tables[7][low & 0xFF] ^ tables[6][low >> 8 & 0xFF] ^ tables[5][low >> 16 & 0xFF] ^
              tables[4][low >> 24] ^ tables[3][at[4]] ^ tables[2][at[5]] ^ tables[1][at[6]] ^
              tables[0][at[7]];
    }
    for (; count > 0; count--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xFF];
    return ~crc;
}
