/*
 * found_object.h: glibc's lock-free lookup of the module around an address (_dl_find_object, 2.35;
 * NULL in a C library without it). Private names, because the system's headers may declare them
 * too.
 */
#ifndef CALM_OS_LINUX_FOUND_OBJECT_H
#define CALM_OS_LINUX_FOUND_OBJECT_H

#include <link.h>

struct found_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};

/* 0: *result describes the module. */
extern int find_object(void *address, struct found_object *result) __asm__("_dl_find_object")
    __attribute__((weak));

#endif
