/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The event of the non-preempt test for LTTng-UST; compiled and loaded by lttng.rs. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_turn.h"

void lathunt_npt_lttng(uint64_t turn, uint64_t ticks, uint64_t third);

void lathunt_npt_lttng(uint64_t turn, uint64_t ticks, uint64_t third)
{
    lttng_ust_tracepoint(lathunt_npt, turn, turn, ticks, third);
}
