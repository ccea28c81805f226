/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* What waits for a CPU when recording ends, for user space (host/src/recorder/unfinished.rs), which needs milliseconds to
 * read it: until then no waking is set, replaced or given back, and the first switch-in of each thread that waits is kept
 * beside its waking. So is the number of blocks of each thread that has left a CPU since: its later ones are not lost. */

#define AT_THE_END (1ull << 63) /* in `armed`, which no timer sets any more: its lower half is the number of blocks then */

/* `state`: in which `prev` leaves the CPU. Its first switch-out since the end tells how often it had blocked until then. */
static __noinline int switched_after_the_end(struct cpu_block *b, struct task_struct *prev, struct task_struct *next,
					     __u32 state)
{
	struct waking *w = is_measured(prev) ? find_waking(prev->pid) : 0;

	if (w && !(w->armed & AT_THE_END))
		publish(&w->armed, AT_THE_END | (__u16)(prev->nvcsw - !!state));
	if (w && w->at && w->preempted != SWITCHED_IN_LATER) {
		/* It had this CPU already. Woken while still going to sleep, it did not wait. */
		if (b->running != prev->pid + 1)
			lose(b, LOST_WAKEUP); /* by a switch that the kernel did not report, before the end or after */
		w->at = 0;
	}
	w = is_measured(next) ? find_waking(next->pid) : 0;
	if (!w || !w->at || (w->preempted && w->preempted != SLEPT_UNMEASURED))
		return 0;
	activation_fill(b, &w->saved, bpf_ktime_get_ns(), w, w->at, prev, next, shares_priority(b, w->at, next));
	w->preempted = SWITCHED_IN_LATER;
	publish(&w->saved.stamp, 1);
	return 0;
}

/* A thread that waits for a CPU is not woken again: this one slept at the end. An older waking is still set if another CPU
 * woke it while it was going to sleep, and it then slept without a wait. */
static __noinline int woken_after_the_end(struct task_struct *p)
{
	struct waking *w = find_waking(p->pid);

	if (w && w->preempted != SWITCHED_IN_LATER)
		w->at = 0;
	return 0;
}
