/*
 * forks.pml: fork takes every lock, outermost rank first, so that the child finds nothing half edited.
 *
 * Two threads fork, two work under nested locks, always in rising rank.   MUTANT 1: one fork takes the locks from the
 * other end.   MUTANT 2: fork forgets one lock.   MUTANT 3: a worker takes its inner lock first.
 *
 * Not covered: what the locks guard; a lock whose holder does not let go within a second, which a fork leaves; more
 * than two forks, two workers and four locks; what the machine reorders.
 */
#define LOCKS 4

#ifndef MUTANT
#define MUTANT 0
#endif

bool held[LOCKS];
bool is_edited[LOCKS];

inline acquire(rank)
{
    atomic { !held[rank] -> held[rank] = true }
}

inline release(rank)
{
    held[rank] = false
}

inline edit(rank)
{
    is_edited[rank] = true;
    is_edited[rank] = false
}

proctype worker(byte outer; byte inner)
{
    byte times = 0;
    do
    :: times == 2 -> break
    :: else ->
        times++;
#if MUTANT == 3
        acquire(inner); acquire(outer);
#else
        acquire(outer);
        edit(outer);
        acquire(inner);
#endif
        edit(inner);
        release(inner);
        release(outer)
    od
}

proctype forker(bool is_backwards)
{
    byte i = 0, rank;
    do
    :: i == LOCKS -> break
    :: else ->
        rank = (is_backwards -> LOCKS - 1 - i : i);
        if
        :: MUTANT == 2 && rank == 1 -> skip
        :: else -> acquire(rank)
        fi;
        i++
    od;
    /* The child's memory is that of this moment. */
    atomic { assert(!is_edited[0] && !is_edited[1] && !is_edited[2] && !is_edited[3]) };
    i = LOCKS;
    do
    :: i == 0 -> break
    :: else ->
        i--;
        if
        :: MUTANT == 2 && i == 1 -> skip
        :: else -> release(i)
        fi
    od
}

init
{
    atomic {
        run worker(0, 2);
        run worker(1, 3);
        run forker(false);
        run forker(MUTANT == 1)
    }
}
