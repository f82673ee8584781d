/*
 * stack_cases.h: programs for os_stack, each compiled in several ways.
 *
 * A case returns NULL, or the sentence that says what is wrong. The oracle are the functions of its
 * call chains, which write down the addresses that they return to.
 */
#ifndef CALM_TESTS_STACK_CASES_H
#define CALM_TESTS_STACK_CASES_H

struct stack_case {
    const char *name;
    const char *(*run)(void);
};

/* Each ends with a NULL name. As the flags of tests/unit/CMakeLists.txt say: not optimised;
 * optimised, with no frame pointers; with frame pointers; with these and no unwind tables. */
extern const struct stack_case stack_cases_plain[];
extern const struct stack_case stack_cases_optimised[];
extern const struct stack_case stack_cases_pointers[];
extern const struct stack_case stack_cases_tableless[];

#endif
