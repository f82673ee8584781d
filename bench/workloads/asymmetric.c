/*
 * asymmetric SEED COUNT: one thread makes COUNT strings of 7 to 35 bytes and links each, in a node
 * of its own, to the end of a list with a lock; another takes them off, sums them up and frees node
 * and string. At most 1024 strings wait in the list.
 *
 * Measures memory that is allocated by one thread and freed by another for ever: what is alive is
 * bounded, so what is resident must be flat. It is read 50 times over the run, by the thread that
 * frees; `resident_drift_kib` is what the last ten readings have more than the second ten, by their
 * medians. Each string must be the next one, whole. Locks and wake-ups are timed, equally for all;
 * so are the readings. Does not measure several producers (see `mpsc`).
 */
#include "text.h"

enum { BYTES_MIN = 7, BYTES_MAX = 35, WAITING_MAX = 1024 };

struct node {
    struct node *next;
    char *text;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t not_full;
    pthread_cond_t not_empty;
    struct node *first;
    struct node **end;
    uint64_t count;
} list = {PTHREAD_MUTEX_INITIALIZER,
          PTHREAD_COND_INITIALIZER,
          PTHREAD_COND_INITIALIZER,
          NULL,
          &list.first,
          0};

static double readings[READINGS][2];
static uint64_t seed, count, check;

static void list_put(struct node *node)
{
    pthread_mutex_lock(&list.lock);
    while (list.count == WAITING_MAX)
        pthread_cond_wait(&list.not_full, &list.lock);
    *list.end = node;
    list.end = &node->next;
    if (list.count++ == 0)
        pthread_cond_signal(&list.not_empty);
    pthread_mutex_unlock(&list.lock);
}

static struct node *list_take(void)
{
    pthread_mutex_lock(&list.lock);
    while (list.count == 0)
        pthread_cond_wait(&list.not_empty, &list.lock);
    struct node *node = list.first;
    list.first = node->next;
    if (list.first == NULL)
        list.end = &list.first;
    if (list.count-- == WAITING_MAX)
        pthread_cond_signal(&list.not_full);
    pthread_mutex_unlock(&list.lock);
    return node;
}

static void produce(void)
{
    for (uint64_t i = 0; i < count; i++) {
        struct node *node = allocate(sizeof *node, 0);
        node->next = NULL;
        node->text = text_new(seed + i, BYTES_MIN, BYTES_MAX);
        list_put(node);
    }
}

static void consume(void)
{
    double start = read_clocks().wall;
    uint64_t sum = 0;
    unsigned taken = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct node *node = list_take();
        sum += text_verify(node->text, seed + i, BYTES_MIN, BYTES_MAX);
        free(node->text);
        free(node);
        if (taken < READINGS && (i + 1) * READINGS >= (taken + 1) * count) {
            readings[taken][0] = read_clocks().wall - start;
            readings[taken++][1] = (double)read_memory().resident_kib;
        }
    }
    check = sum;
}

static void work(unsigned index)
{
    if (index == 0)
        produce();
    else
        consume();
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    count = argument(argc, argv, 2, "count");
    if (count < READINGS)
        fail("at least %d strings", READINGS);
    run_threads(2, work);
    result_readings((const double(*)[2])readings);
    return result_print(check);
}
