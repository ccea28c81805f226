/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* The activation of each measured thread in which recording begins (found by start.h): nothing of it was recorded before. It
 * begins with the recording and has no wake-up. A thread that sleeps has ended it: it tells only where it waits.
 * Without it, that part of a job would be in no figure, however long. */

/* Fills `a` with what is known of `p` at `at`. */
static __always_inline void activation_begun(struct activation *a, struct task_struct *p, __u64 at)
{
	*a = (struct activation){};
	a->waking = at;
	a->in_at = at;
	a->tid = p->pid;
	a->tgid = p->tgid;
	a->prio = p->prio;
	a->policy = p->policy;
	a->cpu = cpu_of(p);
	a->waker_cpu = cpu_of(p);
	a->via = VIA_UNKNOWN;
	a->flags = ACT_AWAKE;
	a->blocks = p->nvcsw;
	copy_comm(a->comm, p);
}

/* `p` is on this CPU, and no activation is open: opens the one in which recording began. Called once for each CPU. */
static __noinline int open_begun(struct cpu_block *b, struct task_struct *p)
{
	__s32 tid = __sync_lock_test_and_set(&b->begun_tid, 0); /* before the load of `begun_at` */

	if (tid != p->pid) {
		lose(b, LOST_WAKEUP); /* it left by a switch that the kernel did not report */
		return 0;
	}
	activation_begun(open_activation(b), p, b->begun_at);
	b->run_since = b->begun_at;
	b->run_tid = tid;
	return 1;
}

/* Whether the open activation is that of `p`, which is on this CPU. */
static __always_inline bool is_open(struct cpu_block *b, struct task_struct *p)
{
	if (b->run_tid)
		return b->run_tid == p->pid;
	return b->begun_tid && open_begun(b, p);
}

/* It waited for a CPU since before the recording, woken or preempted. */
static __noinline int wait_before_start_ends(struct cpu_block *b, __u64 at, struct waking *w)
{
	__u64 since = w->saved.entry;

	if (at > since && at - since > b->before_ns)
		b->before_ns = at - since;
	return 0;
}
