/*
 * intern_plugin.c: a plugin that allocates at one place, built twice with different names, so that
 * the two have the same layout.
 */
#include <stddef.h>
#include <stdlib.h>

void *plugin_allocate(size_t bytes);
const char *plugin_name(void);

void *plugin_allocate(size_t bytes)
{
    void *block = malloc(bytes);
    __asm__ volatile("" : "+r"(block)); /* a call, not a jump */
    return block;
}

const char *plugin_name(void)
{
    return PLUGIN_NAME;
}
