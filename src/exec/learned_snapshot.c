/*
 * learned_snapshot.c: what was learned as bytes, and back.
 *
 * Version 1, little-endian, 512 bytes: "CALMPOL" and the version, typical service time, the
 * bandit's sums (45 of the lower half, each row followed by its moment), its noise and number of
 * samples, the forecast's 4 weights, zeros, and a checksum of all before (FNV-1a of Fowler, Noll
 * and Vo, 64 bits). Times are in ns and the sums in units of a typical service time, so a snapshot
 * fits any number of cores and any speed.
 *
 * Owner: the thread that owns the state. Design: docs/design/policies.md
 */
#include "exec/learned.h"

enum { MAGIC_BYTES = 8, SUM_BYTES = 8 };
static const uint8_t magic[MAGIC_BYTES] = {'C', 'A', 'L', 'M', 'P', 'O', 'L', 1};

static uint64_t checksum(const uint8_t *bytes)
{
    uint64_t sum = 0xCBF29CE484222325;
    for (unsigned i = 0; i < LEARNED_SNAPSHOT_BYTES - SUM_BYTES; i++)
        sum = (sum ^ bytes[i]) * 0x100000001B3;
    return sum;
}

union word {
    float value;
    uint32_t bits;
};

static uint8_t *put(uint8_t *at, uint32_t bits)
{
    for (unsigned i = 0; i < 4; i++)
        *at++ = (uint8_t)(bits >> 8 * i);
    return at;
}

static uint8_t *put_float(uint8_t *at, float value)
{
    return put(at, (union word){.value = value}.bits);
}

static const uint8_t *get(const uint8_t *at, uint32_t *bits)
{
    *bits = 0;
    for (unsigned i = 0; i < 4; i++)
        *bits |= (uint32_t)*at++ << 8 * i;
    return at;
}

static const uint8_t *get_float(const uint8_t *at, float *value)
{
    union word word;
    at = get(at, &word.bits);
    *value = word.value;
    return at;
}

void learned_save(const struct learned *learned, uint8_t *bytes)
{
    const struct bandit *bandit = &learned->bandit;
    uint8_t *at = bytes;
    for (unsigned i = 0; i < MAGIC_BYTES; i++)
        *at++ = magic[i];
    at = put_float(at, learned->typical_ns);
    for (unsigned i = 0; i < BANDIT_FEATURES; i++) {
        for (unsigned j = 0; j <= i; j++)
            at = put_float(at, bandit->gram[i][j]);
        at = put_float(at, bandit->moment[i]);
    }
    at = put_float(at, bandit->noise);
    at = put(at, bandit->samples);
    for (unsigned i = 0; i < FORECAST_WEIGHTS; i++)
        at = put_float(at, learned->forecast.weights[i]);
    uint8_t *end = bytes + LEARNED_SNAPSHOT_BYTES - SUM_BYTES;
    while (at < end)
        *at++ = 0;
    uint64_t sum = checksum(bytes);
    put(put(at, (uint32_t)sum), (uint32_t)(sum >> 32));
}

static bool is_whole(const uint8_t *bytes, size_t size)
{
    if (size != LEARNED_SNAPSHOT_BYTES)
        return false;
    for (unsigned i = 0; i < MAGIC_BYTES; i++)
        if (bytes[i] != magic[i])
            return false;
    uint32_t low, high;
    get(get(bytes + LEARNED_SNAPSHOT_BYTES - SUM_BYTES, &low), &high);
    return ((uint64_t)high << 32 | low) == checksum(bytes);
}

bool learned_load(struct learned *learned, const uint8_t *bytes, size_t size)
{
    if (!is_whole(bytes, size))
        return false;
    struct bandit bandit = learned->bandit;
    struct forecast forecast = learned->forecast;
    float typical_ns;
    const uint8_t *at = get_float(bytes + MAGIC_BYTES, &typical_ns);
    for (unsigned i = 0; i < BANDIT_FEATURES; i++) {
        for (unsigned j = 0; j <= i; j++)
            at = get_float(at, &bandit.gram[i][j]);
        at = get_float(at, &bandit.moment[i]);
    }
    at = get_float(at, &bandit.noise);
    at = get(at, &bandit.samples);
    for (unsigned i = 0; i < FORECAST_WEIGHTS; i++) {
        at = get_float(at, &forecast.weights[i]);
        if (!(forecast.weights[i] >= -4 && forecast.weights[i] <= 4))
            return false;
    }
    bool is_sound = typical_ns >= 0 && typical_ns < 1e10f && bandit.noise >= 0 &&
                    bandit.noise < 1e10f;
    if (!is_sound || !bandit_solve(&bandit))
        return false;
    bandit.unsolved = 0;
    bandit_settle(&bandit);
    learned->bandit = bandit;
    learned->forecast = forecast;
    learned->typical_ns = typical_ns;
    learned->scale = typical_ns > 0 ? 1 / typical_ns : 0;
    return true;
}
