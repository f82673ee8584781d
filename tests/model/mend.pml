/*
 * mend.pml: slabs are handed out without the depot's lock while another thread mends the depot
 * (core/depot.c, publish(); core/depot_mend.c, mend()).
 *
 * When everything is quiet and the lock was taken once more, the count is what the map has.
 * MUTANT 1: whoever hands a slab out does not look whether somebody was at it.   MUTANT 2: nobody says that he is at it,
 * only that he was.   MUTANT 3: the doubt is forgotten after the depot was mended, not before.
 */
#define HANDERS 2

#ifndef MUTANT
#define MUTANT 0
#endif

byte mends = 0;
byte count = 0;
bool map[HANDERS];
bool doubt = true; /* the last holder ended */
byte done = 0;

inline mend()
{
    byte i, seen;
#if MUTANT != 3
    doubt = false;
#endif
#if MUTANT != 2
    mends = mends | 1; /* W1 */
#endif
    seen = 0;
    i = 0;
    do
    :: i == HANDERS -> break
    :: else -> seen = seen + map[i]; i++
    od;
    count = seen;
#if MUTANT == 3
    doubt = false;
#endif
    mends = (mends | 1) + 1 /* W2 */
}

active proctype holder()
{
    byte turns = 0;
    do
    :: turns < 2 && doubt -> mend(); turns++
    :: done == HANDERS -> break
    od;
    if :: doubt -> mend() :: else -> skip fi;
    assert(!doubt && count == map[0] + map[1])
}

proctype hander(byte me)
{
    byte before = mends; /* W4 */
    count++;
    map[me] = true;
#if MUTANT != 1
    if /* W3 */
    :: (before & 1) != 0 || before != mends -> doubt = true
    :: else -> skip
    fi;
#endif
    done++
}

init
{
    atomic {
        run hander(0);
        run hander(1)
    }
}
