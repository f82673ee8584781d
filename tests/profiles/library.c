/*
 * library.c: see library.h.
 */
#include "library.h"

void library_site(void (*note)(void *), void *context)
{
    note(context); /* library_site */
}
