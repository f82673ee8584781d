/*
 * loader.h: whether code belongs to a module that is loaded now, without a lock, at any time.
 */
#ifndef CALM_OS_LOADER_H
#define CALM_OS_LOADER_H

#include "base/attr.h"

enum loader_answer {
    LOADER_NONE,   /* no module's mapping has the address in it     */
    LOADER_MODULE, /* a module has, or the C library cannot say    */
    LOADER_ITSELF, /* the dynamic linker has                        */
};

/*
 * Whose mapping has the address in it. glibc from 2.35 on can say; a module counts from before its
 * first instruction runs until its last one has. Without one that can, all code is LOADER_MODULE.
 */
enum loader_answer os_loader_find(const void *address);

#endif
