/*
 * known.c: functions whose longest paths are known by counting, and functions that have none.
 *
 * known_straight: 4 instructions, 1 branch; lines: one of the argument, one of the stack and one
 * more that the stack may reach into. known_fork: the longer side has 3 instructions of its own.
 * known_backward jumps to a lower address without making a loop.
 */
__asm__(
    ".text\n"
    ".globl known_straight, known_fork, known_backward, known_same_line, known_loop, known_call\n"
    ".globl known_indirect, known_division, known_string, known_recursion\n"
    ".type known_straight,@function\n"
    "known_straight: mov (%rdi),%rax\n add $1,%rax\n mov %rax,8(%rdi)\n ret\n"
    ".type known_fork,@function\n"
    "known_fork: test %rsi,%rsi\n je 1f\n mov (%rsi),%rax\n mov (%rax),%rdx\n add %rdx,%rax\n 1: "
    "ret\n"
    ".type known_backward,@function\n"
    "known_backward: jmp 2f\n 1: ret\n 2: test %rdi,%rdi\n jmp 1b\n"
    ".type known_same_line,@function\n"
    "known_same_line: mov 64(%rdi),%rax\n mov 72(%rdi),%rdx\n mov 128(%rdi),%rcx\n mov "
    "64(%rdi),%rsi\n ret\n"
    ".type known_loop,@function\n"
    "known_loop: 1: dec %rdi\n jne 1b\n ret\n"
    ".type known_call,@function\n"
    "known_call: call malloc@PLT\n ret\n"
    ".type known_indirect,@function\n"
    "known_indirect: jmp *%rdi\n"
    ".type known_division,@function\n"
    "known_division: xor %edx,%edx\n div %rdi\n ret\n"
    ".type known_string,@function\n"
    "known_string: rep stosb\n ret\n"
    ".type known_recursion,@function\n"
    "known_recursion: test %rdi,%rdi\n je 1f\n jmp known_recursion\n 1: ret\n"
    ".section .note.GNU-stack,\"\",@progbits\n");
