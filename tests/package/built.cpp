/*
 * built.cpp: as built.c, by the standard names, for programs that link the library itself.
 */
#include <calmalloc/calmalloc.h>

#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 5000, BLOCK_BYTES = 1000, THREADS = 4 };

static thread_local void *volatile block; /* so that no call is optimized away */
static void *held[BLOCKS];

static void work(bool *is_sound)
{
    std::map<std::string, std::vector<int>> numbers;
    for (int i = 0; i < BLOCKS; i++)
        numbers[std::to_string(i)].assign(static_cast<size_t>(i % 100), i);
    block = std::calloc(10, 10);
    *is_sound = numbers.size() == BLOCKS && numbers["4199"].back() == 4199 &&
                calm_usable_size(block) == 112;
    std::free(block);
    try {
        block = ::operator new(PTRDIFF_MAX);
        *is_sound = false;
    } catch (const std::bad_alloc &) {
    }
}

static bool has_a_child()
{
    int status = -1;
    pid_t child = vfork();
    if (child == 0)
        _exit(7);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

int main()
{
    bool sound[THREADS];
    std::vector<std::thread> threads;
    for (bool &is_sound : sound)
        threads.emplace_back(work, &is_sound);
    for (std::thread &thread : threads)
        thread.join();
    bool is_sound = has_a_child() && sound[0] && sound[1] && sound[2] && sound[3];
    for (void *&place : held)
        is_sound &= (place = std::malloc(BLOCK_BYTES)) != nullptr;
    if (!is_sound || calm_verify() != nullptr || write(1, "ready\n", 6) != 6)
        return 1;
    struct pollfd input = {0, POLLIN, 0};
    while (poll(&input, 1, 1) == 0) {
        block = std::malloc(BLOCK_BYTES);
        std::free(block);
    }
    for (void *place : held)
        std::free(place);
    return calm_verify() != nullptr;
}
