/*
 * snapshot.pml: what a forked child finds in a cache whose owner was in a fast path (core/cache.h, cache_pop, cache_free).
 *
 * An entry is its newest block (`first`), the others in slots, and `top`. The child sees the words of one moment. It may
 * lose a block that was on its way, but must not see one twice: it drops `first` when the top slot names the same.
 * MUTANT 1: it does not.
 *
 * Not covered: an owner in a slow path (`edits`), other sequences of pops and pushes than this one, what the machine
 * reorders.
 */
#ifndef MUTANT
#define MUTANT 0
#endif

byte slots[5];
byte first = 3;
byte top = 2; /* slots[0] is the NULL below the oldest */
bool is_over = false;

inline pop()
{
    first = slots[top];
    top--
}

inline push(block)
{
    slots[top + 1] = first;
    top++;
    first = block
}

proctype owner()
{
    pop();
    pop();
    push(2);
    push(4);
    pop();
    is_over = true
}

proctype child()
{
    byte seen_first, seen_top, i, j;
    byte seen[5];
    atomic { /* fork */
        seen_first = first;
        seen_top = top;
        for (i : 0 .. 4) { seen[i] = slots[i] }
    };
    if
    :: MUTANT != 1 && seen_top > 0 && seen[seen_top] == seen_first -> seen_top--
    :: else
    fi;
    for (i : 1 .. 4) {
        if
        :: i <= seen_top ->
            assert(seen[i] != seen_first);
            for (j : 1 .. 4) {
                if :: j < i -> assert(seen[i] != seen[j]) :: else fi
            }
        :: else
        fi
    }
}

init
{
    atomic {
        slots[1] = 1;
        slots[2] = 2;
        run owner();
        run child()
    }
}
