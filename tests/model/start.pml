/*
 * start.pml: the word that says whether the heap has begun (core/heap.c, heap_start).
 *
 * One thread at a time starts the heap; a start may fail and be tried again; whoever waits is woken; whoever sees DONE
 * sees the region. A starter may stop for ever; whoever waits gives it up then.   MUTANT 1: the starter wakes before it
 * stores.   MUTANT 2: look and claim are two steps.   MUTANT 3: who gives up lets another thread start.
 * MUTANT 4: nobody gives up.
 *
 * Not covered: the start itself, of which there is one bit; the fork; more than three threads; what the machine
 * reorders.
 */
#define NOT_YET 0
#define RUNNING 1
#define DONE 2
#define GIVEN_UP 3
#define THREADS 3

#ifndef MUTANT
#define MUTANT 0
#endif

byte state = NOT_YET;
byte starters = 0;
byte failures = 0;
bool is_stopped = false; /* the starter; or it was, and goes on */
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
    :: is_stopped = true;
        if
        :: is_stopped = false
        :: true ->
end_stopped:
            (false)
        fi
    :: true
    fi;
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
        :: seen == GIVEN_UP -> skip
        :: seen == RUNNING ->
            do
            :: seen != RUNNING -> break
            :: else ->
                atomic { sleeps[me] = (state == RUNNING) }; /* os_wait compares and sleeps in one step */
                if
                :: (!sleeps[me]) -> seen = state
                :: atomic { /* S5: the patience is over */
                    (sleeps[me] && is_stopped && MUTANT != 4) ->
                    sleeps[me] = false;
                    seen = state;
                    if
#if MUTANT == 3
                    :: seen == RUNNING -> state = NOT_YET; wake_all(); seen = NOT_YET
#else
                    :: seen == RUNNING -> state = GIVEN_UP; wake_all(); seen = GIVEN_UP
#endif
                    :: else
                    fi
                    }
                fi
            od
        fi
    od
}

init
{
    atomic { run requester(0); run requester(1); run requester(2) }
}
