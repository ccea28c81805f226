/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_bench.h"

#if !defined(LTTNG_BENCH_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_BENCH_H
#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(bench, words, LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b, uint64_t, c),
                           LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a)
                                                   lttng_ust_field_integer(uint64_t, b, b)
                                                       lttng_ust_field_integer(uint64_t, c, c)))
#endif
#include <lttng/tracepoint-event.h>
