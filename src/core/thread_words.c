/*
 * thread_words.c: what a thread begins with.
 *
 * Owner: each thread its own.
 */
#include "core/thread_words.h"

#include "core/cache.h"

_Thread_local struct thread_words of_thread = {.cache = &cache_none, .small = class_small};
