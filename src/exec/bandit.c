/*
 * bandit.c: sums that fade, a Cholesky factor without roots, and draws from the posterior.
 *
 * Owner: the thread that owns the state. Design: docs/design/policies.md
 */
#include "exec/bandit.h"

#include "exec/policy_parts.h"

enum { N = BANDIT_FEATURES };

/* What is left of a sample after each solution: it counts for about 32 / (1 - fade) = 8,192
 * samples. */
static const float fade = 1.0f - 1.0f / 256;
/* How far draws go, in standard deviations: below 1, since samples are plenty and mistakes cost a
 * tail. */
static const float curiosity = 0.3f;
static const float noise_fade = 1.0f / 1024;
static const float large = 1e30f;

void bandit_start(struct bandit *bandit, const struct bandit_belief *belief, uint64_t seed)
{
    *bandit = (struct bandit){.random = seed, .belief = *belief, .noise = 1};
    bandit_solve(bandit);
    bandit_settle(bandit);
}

void bandit_settle(struct bandit *bandit)
{
    for (unsigned i = 0; i < N; i++)
        bandit->drawn[i] = bandit->mean[i];
}

float bandit_root(float x)
{
    if (!(x > 0))
        return 0;
    union {
        float value;
        uint32_t bits;
    } guess = {.value = x};
    guess.bits = (guess.bits >> 1) + 0x1FBD1DF5; /* half the exponent: within 4 % */
    for (unsigned i = 0; i < 3; i++)
        guess.value = 0.5f * (guess.value + x / guess.value);
    return guess.value;
}

static bool is_sound(float value)
{
    return value > -large && value < large; /* false for what is no number, too */
}

/* lower and diagonal of gram + ridge. */
static bool factorise(const struct bandit *bandit, float lower[N][N], float diagonal[N])
{
    for (unsigned j = 0; j < N; j++) {
        float d = bandit->gram[j][j] + bandit->belief.ridge;
        for (unsigned k = 0; k < j; k++)
            d -= lower[j][k] * lower[j][k] * diagonal[k];
        /* The ridge keeps it positive; rounding may not. */
        diagonal[j] = d > 0.01f * bandit->belief.ridge ? d : 0.01f * bandit->belief.ridge;
        if (!is_sound(d))
            return false;
        lower[j][j] = 1;
        for (unsigned i = j + 1; i < N; i++) {
            float sum = bandit->gram[i][j];
            for (unsigned k = 0; k < j; k++)
                sum -= lower[i][k] * lower[j][k] * diagonal[k];
            lower[i][j] = sum / diagonal[j];
        }
    }
    return true;
}

/* In place: solves lower' x = x. */
static void solve_upper(float lower[N][N], float x[N])
{
    for (unsigned i = N; i-- > 0;)
        for (unsigned k = i + 1; k < N; k++)
            x[i] -= lower[k][i] * x[k];
}

/* Keeps weights to what is believed of them; of the parts the first has the right of way. */
static void bound(const struct bandit_belief *belief, float *weights)
{
    for (unsigned i = 0; i < N; i++)
        weights[i] = weights[i] > belief->floor[i] ? weights[i] : belief->floor[i];
    float left = weights[belief->whole];
    for (unsigned k = 0; k < 2 && belief->parts[k] != belief->whole; k++) {
        float *part = &weights[belief->parts[k]];
        *part = *part < left ? *part : left;
        left -= *part;
    }
}

bool bandit_solve(struct bandit *bandit)
{
    float lower[N][N] = {{0}}, diagonal[N], x[N];
    if (!factorise(bandit, lower, diagonal))
        return false;
    for (unsigned i = 0; i < N; i++) {
        x[i] = bandit->moment[i] + bandit->belief.ridge * bandit->belief.mean[i];
        for (unsigned k = 0; k < i; k++)
            x[i] -= lower[i][k] * x[k];
    }
    for (unsigned i = 0; i < N; i++)
        x[i] /= diagonal[i];
    solve_upper(lower, x);
    for (unsigned i = 0; i < N; i++)
        if (!is_sound(x[i]))
            return false;
    bound(&bandit->belief, x);
    for (unsigned i = 0; i < N; i++) {
        bandit->mean[i] = x[i];
        bandit->diagonal[i] = diagonal[i];
        for (unsigned k = 0; k < N; k++)
            bandit->lower[i][k] = lower[i][k];
    }
    return true;
}

/* Near enough to normal, mean 0, variance 1: the sum of four uniform numbers. */
static float draw_normal(uint64_t *random)
{
    uint64_t bits = policy_draw(random);
    uint32_t sum = (uint32_t)(bits & 0xFFFF) + (uint32_t)(bits >> 16 & 0xFFFF) +
                   (uint32_t)(bits >> 32 & 0xFFFF) + (uint32_t)(bits >> 48);
    return ((float)sum - 131070.0f) * (1.7320508f / 65536.0f);
}

void bandit_draw(struct bandit *bandit)
{
    float x[N];
    float reach = curiosity * bandit_root(bandit->noise);
    for (unsigned i = 0; i < N; i++)
        x[i] = draw_normal(&bandit->random) * reach / bandit_root(bandit->diagonal[i]);
    solve_upper(bandit->lower, x);
    for (unsigned i = 0; i < N; i++)
        bandit->drawn[i] = bandit->mean[i] + x[i];
    bound(&bandit->belief, bandit->drawn);
}

void bandit_learn(struct bandit *bandit, const float *x, float y)
{
    float error = y - bandit_sum(bandit->mean, x);
    if (!is_sound(error))
        return; /* one such number would stay in the sums for ever */
    bandit->noise += noise_fade * (error * error - bandit->noise);
#pragma GCC unroll 9
    for (unsigned i = 0; i < N; i++) {
#pragma GCC unroll 9
        for (unsigned j = 0; j <= i; j++)
            bandit->gram[i][j] += x[i] * x[j];
        bandit->moment[i] += x[i] * y;
    }
    bandit->samples++;
    if (++bandit->unsolved < BANDIT_SOLVE_EVERY)
        return;
    bandit->unsolved = 0;
    for (unsigned i = 0; i < N; i++) {
        for (unsigned j = 0; j <= i; j++)
            bandit->gram[i][j] *= fade;
        bandit->moment[i] *= fade;
    }
    if (bandit_solve(bandit))
        bandit_draw(bandit);
}
