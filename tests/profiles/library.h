/*
 * library.h: a frame in another file than the program.
 */
#ifndef CALM_TESTS_PROFILES_LIBRARY_H
#define CALM_TESTS_PROFILES_LIBRARY_H

void library_site(void (*note)(void *), void *context);

#endif
