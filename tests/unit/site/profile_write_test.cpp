/*
 * profile_write_test.cpp: site/profile_write.c chooses the writer, and gives back what write says.
 */
#include <gtest/gtest.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>

#include "profile_support.h"

static const enum profile_format formats[] = {PROFILE_PPROF, PROFILE_HEAP_V2, PROFILE_COLLAPSED};

static int write_to(int fd, enum profile_format format)
{
    return profile_write_from(&calm_test::source, fd, format);
}

static void begin(size_t stack_count)
{
    calm_test::begin_profile(4096);
    for (size_t i = 0; i < stack_count; i++)
        calm_test::stacks.push_back(
            {{reinterpret_cast<uintptr_t>(&write_to) + 1, 0x100000 + i}, 1, 4096, 1, 4096});
}

static size_t lines_of(const char *path)
{
    std::ifstream file(path);
    size_t count = 0;
    for (std::string line; std::getline(file, line);)
        count++;
    return count;
}

TEST(ProfileWrite, EachFormatIsWrittenByItsWriter)
{
    begin(3);
    calm_test::file pprof, heap_v2, collapsed;
    ASSERT_EQ(write_to(pprof.fd(), PROFILE_PPROF), 0);
    ASSERT_EQ(write_to(heap_v2.fd(), PROFILE_HEAP_V2), 0);
    ASSERT_EQ(write_to(collapsed.fd(), PROFILE_COLLAPSED), 0);
    std::string trouble;
    EXPECT_NE(calm_test::unwrap(pprof.contents(), &trouble).find("inuse_space"), std::string::npos);
    EXPECT_EQ(trouble, "");
    EXPECT_EQ(heap_v2.contents().substr(0, 13), "heap_v2/4096\n");
    std::string first = collapsed.contents().substr(0, collapsed.contents().find('\n'));
    EXPECT_EQ(first.substr(0, 18), "0xfffff;unit_site+");
    EXPECT_EQ(first.substr(first.size() - 5), " 4096");
}

/* Seen to fail without the release of the tables, and with a list of mappings left open. */
TEST(ProfileWrite, NothingStaysMappedOrOpen)
{
    begin(100);
    calm_test::file file;
    for (enum profile_format format : formats)
        ASSERT_EQ(write_to(file.fd(), format), 0);
    int next = dup(0);
    close(next);
    size_t mappings = lines_of("/proc/self/maps");
    for (unsigned i = 0; i < 50; i++)
        for (enum profile_format format : formats)
            ASSERT_EQ(write_to(file.fd(), format), 0);
    int after = dup(0);
    close(after);
    EXPECT_EQ(after, next);
    EXPECT_LT(lines_of("/proc/self/maps"), mappings + 20);
}

/* Seen to fail with the sign of the error not turned. */
TEST(ProfileWrite, AFullDiskIsAnError)
{
    begin(10000);
    int full = open("/dev/full", O_WRONLY);
    if (full < 0)
        GTEST_SKIP() << "no /dev/full";
    for (enum profile_format format : formats)
        EXPECT_EQ(write_to(full, format), ENOSPC) << format;
    close(full);
    for (enum profile_format format : formats)
        EXPECT_EQ(write_to(-1, format), EBADF) << format;
}

TEST(ProfileWrite, APipeThatNobodyReadsIsAnErrorWhereTheSignalIsIgnored)
{
    begin(10000);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    sighandler_t before = signal(SIGPIPE, SIG_IGN);
    errno = 77;
    for (enum profile_format format : formats)
        EXPECT_EQ(write_to(ends[1], format), EPIPE) << format;
    EXPECT_EQ(errno, 77);
    signal(SIGPIPE, before);
    close(ends[1]);
}

/* SIGPIPE is the program's own business: a writer that blocked or ignored it would take signals
 * from other threads. */
TEST(ProfileWriteDeathTest, APipeThatNobodyReadsRaisesItsSignal)
{
    begin(1);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    EXPECT_EXIT(
        {
            signal(SIGPIPE, SIG_DFL);
            write_to(ends[1], PROFILE_HEAP_V2);
            _exit(1);
        },
        ::testing::KilledBySignal(SIGPIPE), "");
    close(ends[1]);
}

/* A pipe of one page, read in odd pieces, under a rain of signals that interrupt the write. Seen to
 * fail with an os_write() that takes EINTR for an error, and with one that trusts the first count.
 */
TEST(ProfileWrite, InterruptedAndShortWritesLoseNothing)
{
    begin(20000);
    calm_test::file whole;
    ASSERT_EQ(write_to(whole.fd(), PROFILE_PPROF), 0);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    fcntl(ends[1], F_SETPIPE_SZ, 4096);
    struct sigaction action = {}, before;
    action.sa_handler = [](int) {}; /* without SA_RESTART */
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    pthread_t writer = pthread_self();
    std::string read_back;
    std::thread reader([&] {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, nullptr);
        char buffer[1237];
        for (unsigned round = 0;; round++) {
            if (round % 4 == 0)
                pthread_kill(writer, SIGUSR1);
            ssize_t got = read(ends[0], buffer, sizeof buffer);
            if (got <= 0)
                break;
            read_back.append(buffer, static_cast<size_t>(got));
        }
    });
    EXPECT_EQ(write_to(ends[1], PROFILE_PPROF), 0);
    close(ends[1]);
    reader.join();
    close(ends[0]);
    sigaction(SIGUSR1, &before, nullptr);
    EXPECT_EQ(read_back, whole.contents());
}

/* What the kernel puts on a signal's stack, and 8 KiB for all of ours; below them nothing may be
 * touched. Seen to fail, by a fault, with the buffer of a location's message at 16 KiB. */
TEST(ProfileWrite, ASignalHandlerOnASmallStackMayWrite)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer's frames are larger";
    begin(100);
    static calm_test::file *files[3];
    static int errors[3];
    for (calm_test::file *&file : files)
        file = new calm_test::file;
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t size = align_up(std::max<size_t>(getauxval(AT_MINSIGSTKSZ), 4096) + 8192, page);
    char *memory = static_cast<char *>(
        mmap(nullptr, page + size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(mprotect(memory + page, size, PROT_READ | PROT_WRITE), 0);
    stack_t small = {}, before_stack;
    small.ss_sp = memory + page;
    small.ss_size = size;
    ASSERT_EQ(sigaltstack(&small, &before_stack), 0);
    struct sigaction action = {}, before;
    action.sa_flags = SA_ONSTACK;
    action.sa_handler = [](int) {
        for (unsigned i = 0; i < 3; i++)
            errors[i] = write_to(files[i]->fd(), formats[i]);
    };
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, nullptr);
    sigaltstack(&before_stack, nullptr);
    munmap(memory, page + size);
    for (unsigned i = 0; i < 3; i++) {
        EXPECT_EQ(errors[i], 0);
        EXPECT_GT(files[i]->contents().size(), 100u);
        delete files[i];
    }
}
