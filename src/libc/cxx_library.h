/*
 * cxx_library.h: the C++ library of the requesting code, found on demand.
 */
#ifndef CALM_LIBC_CXX_LIBRARY_H
#define CALM_LIBC_CXX_LIBRARY_H

#include "base/attr.h"

typedef void (*cxx_new_handler)(void);
typedef void (*cxx_function)(void);

struct cxx_library {
    cxx_new_handler (*handler)(void); /* std::get_new_handler               */
    cxx_function operator_form;       /* the library's own operator `name` */
};

/*
 * Finds the C++ library that the code at `site` is linked with, and that library's own definition
 * of the operator `name`. False: there is none, none is visible from here, or no memory for the
 * search. The caller must not keep the result: the library may be closed later.
 */
HIDDEN bool cxx_library_find(const void *site, const char *name, struct cxx_library *out);

/*
 * Throws std::bad_alloc with the parts linked into the program itself (Itanium C++ ABI, exception
 * handling). Returns if there are none.
 */
HIDDEN void cxx_throw_bad_alloc(void);

/* The new-handler from the parts linked into the program itself. NULL: none is set, or no
 * library. */
HIDDEN cxx_new_handler cxx_linked_handler(void);

#endif
