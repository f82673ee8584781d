/*
 * many_keys.c: a library that makes so many keys before the heap makes its own that
 * pthread_setspecific() of the heap's key allocates in the GNU C library.
 */
#include <pthread.h>

enum { KEYS = 40 };

__attribute__((constructor)) static void make_keys(void)
{
    static pthread_key_t keys[KEYS];
    for (unsigned i = 0; i < KEYS; i++)
        pthread_key_create(&keys[i], NULL);
}
