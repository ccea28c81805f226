/*
 * Emits numbered events and keeps, in a shared file, how many it has begun and finished per thread.
 *     emitter COUNTERS THREADS EVENTS PAUSE_EVERY [signals]
 * EVENTS 0: until killed. A pause of 100 us follows every PAUSE_EVERY events. "signals": an interval timer's handler
 * emits as well, as thread 1000. The counters are 64 threads x {begun, finished}.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <lathunt/trace.h>

LATHUNT_EVENT(test, count, (u32, thread), (u64, number), (str, label, 16));

static volatile uint64_t *counters;
static uint64_t events, pause_every;

static void emit(uint32_t thread, volatile uint64_t *counter)
{
    char label[17] = "abcdefghijklmnop";
    uint64_t number = counter[0];
    label[number % 16] = 0;
    counter[0] = number + 1;
    LATHUNT_EMIT(test, count, thread, number, label);
    counter[1] = number + 1;
}

static void on_signal(int number)
{
    (void)number;
    emit(1000, counters + 2 * 63);
}

static void *run(void *index)
{
    uint64_t number;
    uint32_t thread = (uint32_t)(size_t)index;
    lathunt_thread_init(NULL);
    for (number = 0; !events || number < events; number++) {
        emit(thread, counters + 2 * thread);
        if (number % pause_every == pause_every - 1)
            usleep(100);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[64];
    long count, index;
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (argc < 5 || file < 0 || ftruncate(file, 1024) != 0)
        return 1;
    counters = mmap(NULL, 1024, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    count = atol(argv[2]);
    events = strtoull(argv[3], NULL, 10);
    pause_every = strtoull(argv[4], NULL, 10);
    for (index = 0; !LATHUNT_WANTED(test, count) && index < 5000; index++)
        usleep(1000);
    if (argc > 5) {
        struct itimerval often = {{0, 50}, {0, 50}};
        lathunt_thread_init(NULL); /* while it runs, a handler's events would have no ring yet, and be counted so */
        signal(SIGALRM, on_signal);
        setitimer(ITIMER_REAL, &often, NULL);
        run((void *)0); /* one thread: the handler's events go into the same ring */
        setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
        return 0;
    }
    for (index = 0; index < count; index++)
        pthread_create(&threads[index], NULL, run, (void *)index);
    for (index = 0; index < count; index++)
        pthread_join(threads[index], NULL);
    return 0;
}
