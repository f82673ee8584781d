/* consumer.c: uses the header and the standard names; says whether the blocks are calmalloc's. */
#include <calmalloc/calmalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char header[32];
    snprintf(header, sizeof header, "%d.%d.%d", CALM_VERSION_MAJOR, CALM_VERSION_MINOR,
             CALM_VERSION_PATCH);
    char *block = malloc(100);
    void *explicit_block = calm_malloc(200);
    if (block == NULL || explicit_block == NULL)
        return 2;
    memset(block, 1, 100);
    /* A pointer that is not calmalloc's has usable size 0. */
    printf("version %s header %s malloc %s calm_malloc %s stack %s\n", calm_version(), header,
           calm_usable_size(block) >= 100 ? "ours" : "foreign",
           calm_usable_size(explicit_block) >= 200 ? "ours" : "foreign",
           calm_usable_size(header) == 0 ? "foreign" : "ours");
    free(block);
    calm_free(explicit_block);
    return 0;
}
