/*
 * loader.h: whether code belongs to a module that is loaded now, without a lock, at any time.
 */
#ifndef CALM_OS_LOADER_H
#define CALM_OS_LOADER_H

#include "base/attr.h"

enum loader_answer {
    LOADER_NONE,   /* in no module's mapping                     */
    LOADER_MODULE, /* in a module's, or the C library cannot say */
    LOADER_ITSELF, /* in the dynamic linker's                    */
};

/*
 * Whose mapping contains the address. glibc from 2.35 on can say; a module counts from before its
 * first instruction runs until its last one has. With another C library, all code is LOADER_MODULE.
 */
enum loader_answer os_loader_find(const void *address);

#endif
