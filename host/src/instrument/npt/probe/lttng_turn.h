/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER lathunt_npt
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_turn.h"

#if !defined(LTTNG_TURN_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_TURN_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(lathunt_npt, turn, LTTNG_UST_TP_ARGS(uint64_t, turn, uint64_t, ticks, uint64_t, third),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, turn, turn)
                                                   lttng_ust_field_integer(uint64_t, ticks, ticks)
                                                       lttng_ust_field_integer(uint64_t, third, third)))
#endif
#include <lttng/tracepoint-event.h>
