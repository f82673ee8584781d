/*
 * swap.c: simulated swap: a list of the pages in it.
 *
 * A page keeps its bytes: tests call sim_touch() to bring a page back.
 *
 * Owner: the list, under sim_lock.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "os/os.h"
#include "os/sim/state.h"

enum { PAGES_MAX = 65536 };

static struct {
    bool is_there;
    size_t count;
    const char *pages[PAGES_MAX];
    size_t cooled_bytes;
} swap;

static size_t find(const char *page)
{
    size_t i = 0;
    while (i < swap.count && swap.pages[i] != page)
        i++;
    return i;
}

static bool is_resident(const char *page)
{
    unsigned char is_there = 0;
    int before = errno;
    mincore((void *)(uintptr_t)page, 1, &is_there);
    errno = before;
    return (is_there & 1) != 0;
}

void sim_swap(bool is_there)
{
    sim_lock();
    swap.is_there = is_there;
    swap.cooled_bytes = 0;
    sim_unlock();
}

void sim_touch(const void *address)
{
    sim_lock();
    size_t i = find((const char *)align_down((uintptr_t)address, sim_page_bytes()));
    if (i < swap.count)
        swap.pages[i] = swap.pages[--swap.count];
    sim_unlock();
}

size_t sim_swapped_bytes(void)
{
    return swap.count * sim_page_bytes();
}

size_t sim_cooled_bytes(void)
{
    return swap.cooled_bytes;
}

int os_page_out(void *start, size_t size)
{
    sim_check_committed("os_page_out", start, size);
    if (sim_enter_kernel(SIM_PAGE_OUT, "os_page_out"))
        return -EINVAL;
    sim_lock();
    for (char *page = start; swap.is_there && page < (char *)start + size; page += sim_page_bytes())
        if (is_resident(page) && find(page) == swap.count && swap.count < PAGES_MAX)
            swap.pages[swap.count++] = page;
    sim_unlock();
    return 0;
}

int os_cool(void *start, size_t size)
{
    sim_check_committed("os_cool", start, size);
    if (sim_enter_kernel(SIM_COOL, "os_cool"))
        return -EINVAL;
    sim_lock();
    swap.cooled_bytes += size;
    sim_unlock();
    return 0;
}

int os_present(const void *start, size_t size, uint8_t *out)
{
    sim_check_committed("os_present", start, size);
    if (sim_enter_kernel(SIM_PRESENT, "os_present"))
        return -EAGAIN;
    sim_lock();
    const char *from = start;
    for (size_t i = 0; i < size / sim_page_bytes(); i++) {
        const char *page = from + i * sim_page_bytes();
        out[i] = is_resident(page) && find(page) == swap.count;
    }
    sim_unlock();
    return 0;
}
