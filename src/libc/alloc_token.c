/*
 * alloc_token.c: the functions that Clang's -fsanitize=alloc-token calls in place of the standard
 * ones. Each takes a token that names the type or the place of the allocation. The token is the
 * site's tag (site/tag.h). Clang passes 0 when it knows no type; the caller is then the site.
 *
 * Two forms: the token as the last argument, or, for -fsanitize-alloc-token-fast-abi, in the name,
 * for tokens 0 to 7, so a program can link with -falloc-token-max=8 at most. A function that the
 * program replaces, such as operator new, is called without the token.
 * Source: Clang's documentation, "Allocation Tokens", and the names in Clang's tests: the prefix,
 * the token and an underscore, then the whole name of the standard function.
 */
#include "libc/aligned.h"
#include "libc/operator.h"
#include "site/tag.h"

/* The source of a request. */
struct request {
    const void *site;
    const void *frame;
};

static inline void *token_new(size_t n, struct request from, bool may_throw)
{
    if (!is_new_ours())
        return may_throw ? _Znwm(n) : operator_new_caught(n, 1, from.site);
    void *block = site_alloc_fast(n, from.site);
    return likely(block != NULL) ? block : operator_new_slow(n, from.site, from.frame, may_throw);
}

static inline void *token_new_aligned(size_t n, size_t a, struct request from, bool may_throw)
{
    if (is_new_aligned_ours())
        return operator_new_aligned(n, a, from.site, from.frame, may_throw);
    return may_throw ? _ZnwmSt11align_val_t(n, a) : operator_new_caught(n, a, from.site);
}

static inline struct sized_block token_new_sized(size_t n, struct request from)
{
    return with_size(token_new(n, from, true), n, is_new_ours());
}

static inline struct sized_block token_new_sized_aligned(size_t n, size_t a, struct request from)
{
    return with_size(token_new_aligned(n, a, from, true), n, is_new_aligned_ours());
}

static inline void *token_reallocarray(void *p, size_t count, size_t n, struct request from)
{
    size_t product = front_product(count, n);
    return product > PTRDIFF_MAX ? front_fail() : front_realloc(p, product, from.site, from.frame);
}

/* Defines one function from its result, name, parameters, token and body, which may use `from`. */
#define TOKEN(result, name, parameters, token, ...)                                                \
    EXPORT WEAK result name parameters;                                                            \
    EXPORT WEAK result name parameters                                                             \
    {                                                                                              \
        struct request from = {(token) == 0 ? (const void *)CALLER : site_of_tag(token),           \
                               CALLER_FRAME};                                                      \
        return __VA_ARGS__;                                                                        \
    }

#define SITE from.site, from.frame

/* Defines all functions. NAME builds a name, WITH a parameter list; T is the token. */
#define TOKENS(NAME, WITH, T)                                                                      \
    TOKEN(void *, NAME(malloc), WITH(size_t n), T, front_alloc(n, SITE))                           \
    TOKEN(void *, NAME(calloc), WITH(size_t c, size_t n), T, front_zeroed(c, n, SITE))             \
    TOKEN(void *, NAME(realloc), WITH(void *p, size_t n), T, front_realloc(p, n, SITE))            \
    TOKEN(void *, NAME(reallocarray), WITH(void *p, size_t c, size_t n), T,                        \
          token_reallocarray(p, c, n, from))                                                       \
    TOKEN(void *, NAME(aligned_alloc), WITH(size_t a, size_t n), T, aligned_exact(a, n, SITE))     \
    TOKEN(void *, NAME(memalign), WITH(size_t a, size_t n), T, aligned_rounded(a, n, SITE))        \
    TOKEN(void *, NAME(valloc), WITH(size_t n), T, front_aligned(aligned_page_bytes(), n, SITE))   \
    TOKEN(void *, NAME(pvalloc), WITH(size_t n), T, aligned_pages(n, SITE))                        \
    TOKEN(int, NAME(posix_memalign), WITH(void **out, size_t a, size_t n), T,                      \
          aligned_posix(out, a, n, SITE))                                                          \
    TOKENS_NEW(NAME, WITH, T, _Znwm)                                                               \
    TOKENS_NEW(NAME, WITH, T, _Znam)                                                               \
    TOKEN(struct sized_block, NAME(__size_returning_new), WITH(size_t n), T,                       \
          token_new_sized(n, from))                                                                \
    TOKEN(struct sized_block, NAME(__size_returning_new_hot_cold), WITH(size_t n, hot_cold h), T,  \
          (void)h, token_new_sized(n, from))                                                       \
    TOKEN(struct sized_block, NAME(__size_returning_new_aligned), WITH(size_t n, size_t a), T,     \
          token_new_sized_aligned(n, a, from))                                                     \
    TOKEN(struct sized_block, NAME(__size_returning_new_aligned_hot_cold),                         \
          WITH(size_t n, size_t a, hot_cold h), T, (void)h, token_new_sized_aligned(n, a, from))

/* All forms of operator new or new[]. */
#define TOKENS_NEW(NAME, WITH, T, new)                                                             \
    TOKEN(void *, NAME(new), WITH(size_t n), T, token_new(n, from, true))                          \
    TOKEN(void *, NAME(new##12__hot_cold_t), WITH(size_t n, hot_cold h), T, (void)h,               \
          token_new(n, from, true))                                                                \
    TOKEN(void *, NAME(new##RKSt9nothrow_t), WITH(size_t n, nothrow t), T, (void)t,                \
          token_new(n, from, false))                                                               \
    TOKEN(void *, NAME(new##RKSt9nothrow_t12__hot_cold_t), WITH(size_t n, nothrow t, hot_cold h),  \
          T, (void)t, (void)h, token_new(n, from, false))                                          \
    TOKEN(void *, NAME(new##St11align_val_t), WITH(size_t n, size_t a), T,                         \
          token_new_aligned(n, a, from, true))                                                     \
    TOKEN(void *, NAME(new##St11align_val_t12__hot_cold_t), WITH(size_t n, size_t a, hot_cold h),  \
          T, (void)h, token_new_aligned(n, a, from, true))                                         \
    TOKEN(void *, NAME(new##St11align_val_tRKSt9nothrow_t), WITH(size_t n, size_t a, nothrow t),   \
          T, (void)t, token_new_aligned(n, a, from, false))                                        \
    TOKEN(void *, NAME(new##St11align_val_tRKSt9nothrow_t12__hot_cold_t),                          \
          WITH(size_t n, size_t a, nothrow t, hot_cold h), T, (void)t, (void)h,                    \
          token_new_aligned(n, a, from, false))

#define WITH_TOKEN(...) (__VA_ARGS__, size_t token)
#define WITHOUT_TOKEN(...) (__VA_ARGS__)

#define NAME_PLAIN(name) __alloc_token_##name
TOKENS(NAME_PLAIN, WITH_TOKEN, token)

#define NAME_0(name) __alloc_token_0_##name
TOKENS(NAME_0, WITHOUT_TOKEN, 0)
#define NAME_1(name) __alloc_token_1_##name
TOKENS(NAME_1, WITHOUT_TOKEN, 1)
#define NAME_2(name) __alloc_token_2_##name
TOKENS(NAME_2, WITHOUT_TOKEN, 2)
#define NAME_3(name) __alloc_token_3_##name
TOKENS(NAME_3, WITHOUT_TOKEN, 3)
#define NAME_4(name) __alloc_token_4_##name
TOKENS(NAME_4, WITHOUT_TOKEN, 4)
#define NAME_5(name) __alloc_token_5_##name
TOKENS(NAME_5, WITHOUT_TOKEN, 5)
#define NAME_6(name) __alloc_token_6_##name
TOKENS(NAME_6, WITHOUT_TOKEN, 6)
#define NAME_7(name) __alloc_token_7_##name
TOKENS(NAME_7, WITHOUT_TOKEN, 7)
