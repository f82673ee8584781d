/*
 * crc32c.h: the checksum CRC-32C (Castagnoli; that of iSCSI, RFC 3720).
 */
#ifndef CALM_MQ_CRC32C_H
#define CALM_MQ_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what had the checksum `crc`, 0 for nothing, and then these bytes. Any thread. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t count);

#endif
