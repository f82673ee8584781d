/*
 * stack_module.c: a library with one function, whose frame is larger by SIZE; nothing else of it
 * depends on that.
 */
int stack_module_call(void (*callee)(void));

int stack_module_call(void (*callee)(void))
{
    volatile char room[SIZE];
    room[0] = 1;
    callee();
    return room[0];
}
