/*
 * names.h: what an address of the watched heap is.
 */
#ifndef CALM_BENCH_NAMES_H
#define CALM_BENCH_NAMES_H

#include <stdbool.h>
#include <stdint.h>

enum { NAME_MAX_BYTES = 48 };

/*
 * Writes a short name. Dynamic memory has the name of its kind; of a depot also the field and, when
 * `is_exact`, the bin. A static variable is "@" and its address: run.py asks the program's symbols.
 */
void name_write(char name[NAME_MAX_BYTES], uintptr_t address, bool is_exact);

#endif
