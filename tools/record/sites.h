/*
 * sites.h: numbers for the addresses that requests return to, and their names: module and offset,
 * or a hash of both with a salt that nobody keeps.
 */
#ifndef CALM_RECORD_SITES_H
#define CALM_RECORD_SITES_H

#include "encode.h"

struct module {
    uint64_t start, end, offset;
    char name[64];
};

struct sites {
    struct {
        uint64_t address;
        uint32_t number;
    } *table;
    size_t capacity;
    uint32_t count;
    struct module *modules;
    size_t module_count;
    uint64_t salt; /* 0: names as they are */
    uint64_t looked_ms;
    int process;
};

bool sites_open(struct sites *sites, int process, uint64_t salt);
void sites_close(struct sites *sites);

/* The site's number; a new one's name is written first. 0 when there is no memory. */
uint32_t sites_number(struct sites *sites, uint64_t address, struct encoder *encoder);

uint64_t salted(const char *text, uint64_t number, uint64_t salt);
uint64_t microseconds(void);
uint64_t milliseconds(void);

#endif
