/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Emits 32-byte events at a steady rate: rate THREADS EVENTS_PER_SECOND_AND_THREAD SECONDS; prints their
 * number. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <lathunt/trace.h>

LATHUNT_EVENT(bench, words, (u64, a), (u64, b), (u64, c));

static unsigned long rate, seconds;

static void *run(void *unused)
{
    unsigned long period, i;
    struct timespec next;
    lathunt_thread_init("rate");
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (period = 0; period < seconds * 1000; period++) {
        for (i = 0; i < rate / 1000; i++)
            LATHUNT_EMIT(bench, words, period, i, rate);
        next.tv_nsec += 1000000;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[16];
    long count = argc > 3 ? atol(argv[1]) : 1, i;
    rate = argc > 3 ? strtoul(argv[2], NULL, 10) : 1000000;
    seconds = argc > 3 ? strtoul(argv[3], NULL, 10) : 5;
    for (i = 0; !LATHUNT_WANTED(bench, words) && i < 3000; i++)
        usleep(1000);
    for (i = 0; i < count && i < 16; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (i = 0; i < count && i < 16; i++)
        pthread_join(threads[i], NULL);
    printf("%lu emitted\n", (unsigned long)count * (rate / 1000) * 1000 * seconds);
    return 0;
}
