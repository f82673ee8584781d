/*
 * signals.h: what each signal means to the server.
 */
#ifndef CALM_MQ_SIGNALS_H
#define CALM_MQ_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

/* Blocks the signals that stop the server, for this thread and those it starts, and ignores those
 * that mean nothing here. `stops` gets the former. */
void signals_take(sigset_t *stops);

/* Of a signal of `stops`: whether a second one means that the stop must not wait. */
bool signal_hurries(int number);

#endif
