/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Where a thread blocks that was never woken as a measured one, for example because it has just made itself real-time. It has no
 * slot, and its activation so far has no start: an activation without a wake-up tells the place (as begun.h). If that is the
 * main wait, the next activation is a job. If it is real-time by its policy, that activation is as long as it may have been
 * so without a block or a preemption: since it got this CPU. Else it is only PI-boosted, and the activation of length 0: user space
 * keeps it until the next one (host/src/recorder/begun.rs). A preemption before its first block has a slot from then on.
 * A thread that another one makes real-time, or renames, may sleep then: the place is read at its first waking, or at that
 * change. */

/* `a` began when `p`, which has this CPU, got it. The kernel's clock is as of the switch under way. */
static __always_inline void since_it_came(struct activation *a, struct task_struct *p, __u64 at)
{
	__u64 ran;

	if (!is_real_time(p->policy) || !bpf_core_field_exists(p->sched_info.last_arrival) ||
	    !bpf_core_field_exists(p->se.cfs_rq->rq))
		return;
	ran = p->se.cfs_rq->rq->clock - p->sched_info.last_arrival;
	if (!p->sched_info.last_arrival || ran >= at)
		return;
	a->waking = at - ran;
	a->in_at = at - ran;
	a->run_ns = ran;
}

/* Switched out runnable. */
static __noinline int preempted_first(struct cpu_block *b, __u64 at, struct task_struct *p)
{
	struct waking *w;

	if ((options & (OPT_ACTIVATIONS | OPT_CHOSEN_ONLY)) != OPT_ACTIVATIONS || p->flags & PF_EXITING ||
	    !is_real_time(p->policy))
		return 0;
	w = claim_waking(b, p->pid);
	if (!w)
		return 0;
	activation_begun(&w->saved, p, at);
	since_it_came(&w->saved, p, at);
	w->saved.preemptions = 1;
	w->saved.out_at = at;
	w->preempted = PREEMPTED;
	return 0;
}

static __noinline int place_of_first_block(struct cpu_block *b, __u64 at, struct task_struct *p, __u32 state)
{
	struct activation *a = open_activation(b);

	if (p->flags & PF_EXITING || find_waking(p->pid))
		return 0;
	b->run_tid = 0; /* if another one was open, its thread left by a switch that the kernel did not report */
	publish(&a->stamp, 0);
	activation_begun(a, p, at);
	since_it_came(a, p, at);
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
