/*
 * helper.pml: when the purger's helper starts and ends (core/purge.c, purge_note and helper).
 *
 * Every free is one START_BYTES. When everything is quiet, a helper has looked after the last free.
 * MUTANT 1: the helper does not look again after it said ENDING.   MUTANT 2: a free does not wait for one that is ENDING.
 */
#define LOOKING 0
#define ENDING 1
#define FREES 2

#ifndef MUTANT
#define MUTANT 0
#endif

byte noted = 0;
byte noted_before = 0;
byte state = LOOKING;
byte alive = 0;
byte helpers = 0;
byte freers = 2;

proctype helper()
{
    byte seen, now;
    helpers++;
    assert(helpers == 1); /* they share one stack */
    do
    :: true ->
        state = LOOKING;
        seen = noted;
        do
        :: true ->
            now = noted; /* a look purges what was noted before it */
            if :: now == seen -> break :: else -> seen = now fi
        od;
        noted_before = seen;
        state = ENDING;
#if MUTANT == 1
        break
#else
        if :: noted != seen -> skip :: else -> break fi
#endif
    od;
    helpers--;
    alive = 0 /* by the kernel, when the thread is off its stack */
}

proctype freer()
{
    byte mine, count = 0;
    bool is_first;
    do
    :: count == FREES -> break
    :: else ->
        count++;
        atomic { noted++; mine = noted };
        if
        :: mine == noted_before -> skip
        :: else ->
#if MUTANT != 2
            if
            :: alive != 0 ->
                if :: state == ENDING -> (alive == 0 || state == LOOKING) :: else fi
            :: else
            fi;
#endif
            if
            :: alive == 0 ->
                atomic { is_first = (alive == 0); if :: is_first -> alive = 1 :: else fi };
                if :: is_first -> state = LOOKING; run helper() :: else fi
            :: else
            fi
        fi
    od;
    freers--
}

init
{
    atomic { run freer(); run freer() };
    (freers == 0 && alive == 0);
    assert(noted_before == noted)
}
