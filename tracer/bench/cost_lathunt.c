/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The empty loop, a disabled event and a 32-byte event of lathunt's tracer. */
#include "cost.h"

#include <lathunt/trace.h>

LATHUNT_EVENT(bench, words, (u64, a), (u64, b), (u64, c));
LATHUNT_EVENT(bench, off, (u64, a), (u64, b), (u64, c));

PROBE_LOOP(loop_empty, __asm__ volatile("" ::: "memory"))
PROBE_LOOP(loop_off, LATHUNT_EMIT(bench, off, i, before, 3))
PROBE_LOOP(loop_event, LATHUNT_EMIT(bench, words, i, before, 3))

int main(int argc, char **argv)
{
    uint64_t loops = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    int cpu = argc > 2 ? atoi(argv[2]) : 1, round;
    lathunt_thread_init("bench");
    for (round = 0; round < 3; round++) {
        measure("empty", loops, cpu, loop_empty);
        measure("lathunt-off", loops, cpu, loop_off);
        measure("lathunt", loops, cpu, loop_event);
    }
    return 0;
}
