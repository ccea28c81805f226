/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Where a thread blocks that was never woken as a measured one, for example because it has just made itself real-time. It has no
 * slot, and its activation so far has no start: an activation of length 0, without a wake-up, tells the place (as begun.h). If
 * that is the main wait, the next activation is a job. User space keeps it until then (host/src/recorder/begun.rs).
 * A thread that another one makes real-time, or renames, may sleep then: the place is read at its first waking, or at that
 * change. */

static __noinline int place_of_first_block(struct cpu_block *b, __u64 at, struct task_struct *p, __u32 state)
{
	struct activation *a = open_activation(b);

	if (p->flags & PF_EXITING || find_waking(p->pid))
		return 0;
	b->run_tid = 0; /* if another one was open, its thread left by a switch that the kernel did not report */
	publish(&a->stamp, 0);
	activation_begun(a, p, at);
	activation_ends(b, a, at, p, 0, state, true);
	return 0;
}

static __always_inline void blocks_first(struct cpu_block *b, __u64 at, struct task_struct *p, __u32 state)
{
	if ((options & (OPT_ACTIVATIONS | OPT_CHOSEN_ONLY)) == OPT_ACTIVATIONS)
		place_of_first_block(b, at, p, state);
}

/* `p` is measured from now on: keeps where it sleeps, if it does, until it gets a CPU. Only then is the head of that CPU's ring
 * free. */
static __noinline bool sleeps_unmeasured(struct cpu_block *b, __u64 at, struct waking *w, struct task_struct *p)
{
	__u32 state;

	if (!(options & OPT_ACTIVATIONS))
		return false;
	state = p->__state;
	if (!state || p->on_rq || (bpf_core_field_exists(p->on_cpu) && p->on_cpu))
		return false;
	activation_begun(&w->saved, p, at);
	w->saved.out_at = at;
	blocks_in(b, &w->saved, p, state, false);
	w->preempted = SLEPT_UNMEASURED;
	return true;
}
