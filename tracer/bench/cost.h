/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cost of one event for the emitting thread: the loop of the non-preempt test around a probe. Pinned, FIFO if allowed, in
 * bursts of 5 ms with pauses of 15 ms, so that real-time throttling never strikes and consumers keep up.
 *
 * Included by one file per tracer, which defines PROBE_NAME, probe(i), prepare() and emits 4 x u64 or 3 x u64 (32 bytes).
 * Prints: name, number of loops, then minimum, median, p99, p99.85, p99.99 and maximum of the gap in ns.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#define BINS 65536 /* of one tick */

static uint64_t bins[BINS + 1];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static double percentile(uint64_t total, double share, double ns_per_tick)
{
    uint64_t below = 0, wanted = (uint64_t)(share * (double)total);
    size_t bin = 0;
    while (bin < BINS && (below += bins[bin]) <= wanted)
        bin++;
    return (double)bin * ns_per_tick;
}

static void measure(const char *name, uint64_t loops, int cpu, void (*probe_loop)(uint64_t, uint64_t *))
{
    struct sched_param fifo = {.sched_priority = 80};
    struct timespec pause = {0, 15000000};
    cpu_set_t here;
    uint64_t ticks = __builtin_ia32_rdtsc(), start = now_ns(), maximum = 0, done = 0, faults;
    struct rusage usage;
    double ns_per_tick;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    sched_setaffinity(0, sizeof(here), &here);
    if (sched_setscheduler(0, SCHED_FIFO, &fifo) != 0)
        fprintf(stderr, "%s: no FIFO priority: the tail is the scheduler's\n", name);
    mlockall(MCL_CURRENT | MCL_FUTURE);
    memset(bins, 0, sizeof(bins));
    probe_loop(1000, &maximum);
    memset(bins, 0, sizeof(bins));
    maximum = 0;
    getrusage(RUSAGE_THREAD, &usage);
    faults = (uint64_t)(usage.ru_minflt + usage.ru_majflt);
    while (done < loops) {
        uint64_t burst_end = now_ns() + 5000000;
        while (done < loops && now_ns() < burst_end) {
            probe_loop(5000, &maximum);
            done += 5000;
        }
        nanosleep(&pause, NULL);
    }
    getrusage(RUSAGE_THREAD, &usage);
    faults = (uint64_t)(usage.ru_minflt + usage.ru_majflt) - faults;
    ns_per_tick = (double)(now_ns() - start) / (double)(__builtin_ia32_rdtsc() - ticks);
    {
        size_t lowest = 0;
        while (lowest < BINS && !bins[lowest])
            lowest++;
        printf("%s %llu %.1f %.1f %.1f %.1f %.1f %.0f faults=%llu\n", name, (unsigned long long)done,
               (double)lowest * ns_per_tick, percentile(done, 0.5, ns_per_tick), percentile(done, 0.99, ns_per_tick),
               percentile(done, 0.9985, ns_per_tick), percentile(done, 0.9999, ns_per_tick),
               (double)maximum * ns_per_tick, (unsigned long long)faults);
    }
    fflush(stdout);
}

/* The loop: time stamp, probe, statistics of the gap. */
#define PROBE_LOOP(function, probe)                                                                                  \
    static void function(uint64_t loops, uint64_t *maximum)                                                          \
    {                                                                                                                \
        uint64_t i, before = __builtin_ia32_rdtsc();                                                                 \
        for (i = 0; i < loops; i++) {                                                                                \
            uint64_t after, gap;                                                                                     \
            probe;                                                                                                   \
            after = __builtin_ia32_rdtsc();                                                                          \
            gap = after - before;                                                                                    \
            before = after;                                                                                          \
            bins[gap < BINS ? gap : BINS]++;                                                                         \
            if (gap > *maximum)                                                                                      \
                *maximum = gap;                                                                                      \
        }                                                                                                            \
    }
