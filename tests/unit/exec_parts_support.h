/*
 * exec_parts_support.h: lets tests look into an executor.
 *
 * Counts as a system header, so that only the tests' own lines are judged as C++.
 */
#pragma GCC system_header
#ifndef CALM_TESTS_UNIT_EXEC_PARTS_SUPPORT_H
#define CALM_TESTS_UNIT_EXEC_PARTS_SUPPORT_H

#include "exec_support.h"

#include "policy_support.h" /* last: its macros have the names of functions */

#define class class_number
#define _Alignas alignas
extern "C" {
#include "exec/parts.h"
}
#undef _Alignas
#undef class

#endif
