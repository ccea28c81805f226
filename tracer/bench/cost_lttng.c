/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The same payload through LTTng-UST. */
#include "cost.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_bench.h"

PROBE_LOOP(loop_empty, __asm__ volatile("" ::: "memory"))
PROBE_LOOP(loop_event, lttng_ust_tracepoint(bench, words, i, before, 3))

int main(int argc, char **argv)
{
    uint64_t loops = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    int cpu = argc > 2 ? atoi(argv[2]) : 1, round;
    for (round = 0; round < 3; round++) {
        measure("empty", loops, cpu, loop_empty);
        measure(argc > 3 ? argv[3] : "lttng", loops, cpu, loop_event);
    }
    return 0;
}
