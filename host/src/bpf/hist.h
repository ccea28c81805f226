/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* The histogram bin of a latency: `Layout::LATENCY` of core/src/histogram.rs, restated for the kernel.
 * host/tests/histogram_parity.rs runs both over the same values. */

#define HIST_WIDTH_NS 1000
#define HIST_LINEAR 10240
#define HIST_SUB_BITS 5
#define HIST_BINS 11545 /* hist_index(U64_MAX) + 1 */

/* floor(log2(v)), v > 0: BPF has no bit scan. */
static __always_inline __u32 hist_log2(__u64 v)
{
	__u32 log = 0;

	if (v >> 32) {
		v >>= 32;
		log += 32;
	}
	if (v >> 16) {
		v >>= 16;
		log += 16;
	}
	if (v >> 8) {
		v >>= 8;
		log += 8;
	}
	if (v >> 4) {
		v >>= 4;
		log += 4;
	}
	if (v >> 2) {
		v >>= 2;
		log += 2;
	}
	return log + (v >> 1);
}

/* Exponent in the high bits, plus the value's top HIST_SUB_BITS + 1 bits. */
static __always_inline __u32 hist_log_linear(__u64 steps)
{
	__u32 shift = hist_log2(steps) - HIST_SUB_BITS;

	return (shift << HIST_SUB_BITS) + (__u32)(steps >> shift);
}

/* ns / HIST_WIDTH_NS without a division, which would take several times as long as everything else here. The constant is
 * ceil(2^38 / 1000): its error stays below one step while ns < 2^32 (Granlund and Montgomery, PLDI 1994). */
static __always_inline __u64 hist_steps(__u64 ns)
{
	return ns >> 32 ? ns / HIST_WIDTH_NS : (ns * 274877907) >> 38;
}

static __always_inline __u32 hist_index(__u64 ns)
{
	__u64 steps = hist_steps(ns);

	if (steps < HIST_LINEAR)
		return steps;
	/* The constant is hist_log_linear(HIST_LINEAR): log2 is 13, shift 8, 8 * 32 + 40. */
	return HIST_LINEAR + hist_log_linear(steps) - 296;
}

/* Counts of one quantity on one CPU. Only that CPU writes them, in code that no other writer can interrupt; guarded by
 * its owner's sequence counter (`hist_seq`, `seq`: odd while being written), except `recent`, which user space exchanges
 * for 0. */
struct hist {
	__u64 count;
	__u64 sum_ns;
	__u64 min_inverted_ns; /* ~min: zero means empty */
	__u64 max_ns;
	__u64 first_ns;	 /* CLOCK_MONOTONIC of the first sample */
	__u64 recent_ns; /* largest since user space last took it */
	__u64 bins[HIST_BINS];
};

static __always_inline void hist_add(struct hist *h, __u64 now, __u64 ns)
{
	__u32 bin = hist_index(ns);

	if (!h->count)
		h->first_ns = now;
	h->count++;
	h->sum_ns += ns;
	if (~ns > h->min_inverted_ns)
		h->min_inverted_ns = ~ns;
	if (ns > h->max_ns)
		h->max_ns = ns;
	if (ns > h->recent_ns)
		h->recent_ns = ns;
	if (bin < HIST_BINS) /* always true; the verifier needs the check */
		h->bins[bin]++;
}
