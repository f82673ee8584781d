/*
 * forecast.c: the forecasts that wait, and what is learned when they are due.
 *
 * Owner: the thread that owns the state. Design: docs/design/policies.md
 */
#include "exec/forecast.h"

static const float step = 0.02f; /* of the way to the weights that would have been right */
static const float weight_max = 4;

void forecast_start(struct forecast *forecast)
{
    /* Before anything is known: a waiting task takes what it wants, nothing comes back. */
    *forecast = (struct forecast){.weights = {0, 0, -0.5f, 0}};
}

void forecast_keep(struct forecast *forecast, const struct forecast_pending *pending)
{
    struct forecast_pending *slot = &forecast->pending[forecast->next];
    if (slot->due_ns == 0)
        *slot = *pending;
}

static float absolute(float value)
{
    return value < 0 ? -value : value;
}

static void learn(struct forecast *forecast, const struct forecast_pending *pending, float found)
{
    float power = 1, error = found - pending->was;
    for (unsigned i = 0; i < FORECAST_WEIGHTS; i++) {
        error -= forecast->weights[i] * pending->x[i];
        power += pending->x[i] * pending->x[i];
    }
    for (unsigned i = 0; i < FORECAST_WEIGHTS; i++) {
        float weight = forecast->weights[i] + step * error * pending->x[i] / power;
        weight = weight < weight_max ? weight : weight_max;
        forecast->weights[i] = weight > -weight_max ? weight : -weight_max;
    }
}

void forecast_check(struct forecast *forecast, const struct policy_view *view)
{
    forecast->next = (forecast->next + 1) % FORECAST_PENDING_MAX;
    struct forecast_pending *slot = &forecast->pending[forecast->next];
    if (slot->due_ns == 0 || slot->due_ns > view->now_ns)
        return;
    float found = (float)watch_free(&view->lines[slot->core], slot->class);
    forecast->error.count++;
    forecast->error.absolute += (double)absolute(slot->said - found);
    forecast->error.absolute_still += (double)absolute(slot->was - found);
    forecast->error.bias += (double)(slot->said - found);
    learn(forecast, slot, found);
    slot->due_ns = 0;
}
