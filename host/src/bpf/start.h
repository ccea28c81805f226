/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Threads that wait for a CPU when recording begins. Their wakings are not recorded: without this, a wait that goes on would
 * be in no figure, however long. User space runs it once, when all other programs record.
 *
 * The kernel knows since when a thread is on its run queue: woken, preempted, or moved there while it waited. It also knows
 * when the thread last had a CPU, by a clock that stands still in interrupts. A real-time thread that has been on the run
 * queue for less time than that was woken; its wake-up counts, to within a tick (the kernel's clock is as old as the last
 * event of the scheduler on that CPU). An ordinary thread may also have been moved by the load balancer after it was
 * preempted: its wait is in no figure, and a loss if it is longer than all that are (WAITED_BEFORE). */

#define ON_RUN_QUEUE 1 /* kernel/sched/sched.h, TASK_ON_RQ_QUEUED */

struct bpf_iter__task {
	void *meta;
	struct task_struct *task; /* null at the end */
};

static __always_inline bool waits_for_a_cpu(struct task_struct *p)
{
	if (!bpf_core_field_exists(p->on_cpu) || p->on_cpu || p->on_rq != ON_RUN_QUEUE || p->__state)
		return false;
	if (p->policy == SCHED_DEADLINE && BPF_CORE_READ_BITFIELD_PROBED(p, dl.dl_throttled))
		return false;
	return !(p->flags & PF_EXITING);
}

/* When `p` began to wait, by CLOCK_MONOTONIC. `away`: when it last had a CPU; 0: unknown. */
static __always_inline __u64 waits_since(struct task_struct *p, __u64 now, __u64 *away)
{
	__u64 queued, clock, ran;
	struct rq *rq;

	*away = 0;
	if (!bpf_core_field_exists(p->sched_info.last_queued) || !bpf_core_field_exists(p->se.cfs_rq->rq))
		return now;
	rq = p->se.cfs_rq->rq;
	queued = p->sched_info.last_queued;
	ran = p->se.exec_start;
	clock = rq->clock;
	if (!queued || queued > clock || clock - queued > now)
		return now;
	ran += clock - rq->clock_task; /* at the latest */
	if (p->se.exec_start && ran <= clock)
		*away = now - (clock - ran);
	return now - (clock - queued);
}

static __noinline int waited_before_start(struct cpu_block *b, struct task_struct *p)
{
	struct waking *w = find_waking(p->pid);
	__u64 since, away;

	if (!w && !(options & OPT_CHOSEN_ONLY))
		w = claim_waking(b, p->pid);
	if (!w || w->at || w->preempted)
		return 0; /* woken, or preempted, while recorded */
	since = waits_since(p, bpf_ktime_get_ns(), &away);
	if (away && since <= away)
		return 0; /* preempted: not a wake-up */
	w->expires = 0;
	w->entry = 0;
	w->slack = 0;
	w->flags = 0;
	w->via = VIA_UNKNOWN;
	w->waker_tid = 0;
	w->source = 0;
	w->sleep = 0;
	if (away && p->prio < MAX_RT_PRIO) {
		publish(&w->at, since);
	} else {
		w->saved.waking = since;
		w->saved.blocks = p->nvcsw;
		w->preempted = WAITED_BEFORE;
	}
	if (!waits_for_a_cpu(p)) { /* switched in meanwhile */
		w->at = 0;
		w->preempted = 0;
	}
	return 0;
}

SEC("iter/task")
int on_each_task(struct bpf_iter__task *ctx)
{
	struct cpu_block *b = any_block();
	struct task_struct *p = ctx->task;

	if (b && p && is_measured(p) && waits_for_a_cpu(p))
		waited_before_start(b, p);
	return 0;
}
