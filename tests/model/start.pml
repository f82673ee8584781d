/*
 * start.pml: the word that says whether the heap has begun (core/heap.c, heap_start).
 *
 * One thread at a time starts the heap; a start may fail and be tried again; whoever waits is woken; whoever sees DONE
 * sees the region.   MUTANT 1: the starter wakes before it stores.   MUTANT 2: look and claim are two steps.
 */
#define NOT_YET 0
#define RUNNING 1
#define DONE 2
#define THREADS 3

#ifndef MUTANT
#define MUTANT 0
#endif

byte state = NOT_YET;
byte starters = 0;
byte failures = 0;
bool region_is_there = false;
bool sleeps[THREADS];

inline wake_all()
{
    d_step { sleeps[0] = false; sleeps[1] = false; sleeps[2] = false }
}

inline start_now()
{
    starters++;
    assert(starters == 1);
    if
    :: failures < 1 -> failures++; next = NOT_YET
    :: region_is_there = true; next = DONE
    fi;
    starters--;
#if MUTANT == 1
    wake_all();
    state = next
#else
    state = next;
    wake_all()
#endif
}

proctype requester(byte me)
{
    byte seen, next, requests = 0;
    do
    :: requests == 2 -> break
    :: else ->
        requests++;
#if MUTANT == 2
        seen = state;
        if :: seen == NOT_YET -> state = RUNNING :: else fi;
#else
        atomic { seen = state; if :: seen == NOT_YET -> state = RUNNING :: else fi }
#endif
        if
        :: seen == NOT_YET -> start_now()
        :: seen == DONE -> assert(region_is_there)
        :: seen == RUNNING ->
            do
            :: seen != RUNNING -> break
            :: else ->
                atomic { sleeps[me] = (state == RUNNING) }; /* os_wait compares and sleeps in one step */
                (!sleeps[me]);
                seen = state
            od
        fi
    od
}

init
{
    atomic { run requester(0); run requester(1); run requester(2) }
}
