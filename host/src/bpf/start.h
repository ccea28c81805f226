/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* What each measured thread does when recording begins: nothing of that was recorded. User space runs this once, when all
 * other programs record.
 *
 * A thread that waits for a CPU. The kernel knows since when it is on its run queue: woken, preempted, or moved there while it
 * waited. It also knows when the thread last had a CPU, by a clock that stands still in interrupts. A real-time thread that
 * has been on the run queue for less time than that was woken; its wake-up counts, to within a tick (the kernel's clock is as
 * old as the last event of the scheduler on that CPU). An ordinary thread may also have been moved by the load balancer after
 * it was preempted: its wait is in no figure, and a loss if it is longer than all that are (WAITED_BEFORE).
 *
 * A thread that was preempted, that has a CPU, or that sleeps: its activation begins with the recording (begun.h). User space
 * reads that of one that sleeps from the iterator (host/src/recorder/begun.rs), which needs no slot for it. */

#define ON_RUN_QUEUE 1 /* kernel/sched/sched.h, TASK_ON_RQ_QUEUED */

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task; /* null at the end */
} CORE;

static __always_inline bool waits_for_a_cpu(struct task_struct *p)
{
	if (p->on_cpu || p->on_rq != ON_RUN_QUEUE || p->__state)
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

/* Its slot, if it is measured. */
static __always_inline struct waking *slot_of(struct cpu_block *b, struct task_struct *p)
{
	struct waking *w = find_waking(p->pid);

	if (!w && !(options & OPT_CHOSEN_ONLY))
		w = claim_waking(b, p->pid);
	return w;
}

static __noinline int waits_at_start(struct cpu_block *b, struct task_struct *p)
{
	__u64 now = bpf_ktime_get_ns(), since, away;
	struct waking *w = slot_of(b, p);
	bool preempted;

	if (!w || w->at || w->preempted == PREEMPTED)
		return 0; /* woken while recorded, also before it was preempted */
	since = waits_since(p, now, &away);
	preempted = w->preempted == PREEMPTED_UNSEEN || (away && since <= away);
	if (preempted && !(options & OPT_ACTIVATIONS))
		return 0;
	w->expires = 0;
	w->entry = 0;
	w->slack = 0;
	w->flags = 0;
	w->via = VIA_UNKNOWN;
	w->waker_tid = 0;
	w->source = 0;
	w->sleep = 0;
	if (!preempted && away && p->prio < MAX_RT_PRIO) {
		publish(&w->at, since);
	} else {
		activation_begun(&w->saved, p, now);
		w->saved.preemptions = 1;
		w->saved.entry = since;
		w->preempted = preempted ? PREEMPTED : WAITED_BEFORE;
	}
	if (!waits_for_a_cpu(p)) { /* switched in meanwhile */
		w->at = 0;
		w->preempted = 0;
	}
	return 0;
}

static __noinline int runs_at_start(struct task_struct *p)
{
	__u64 switches = p->nvcsw + p->nivcsw;
	__u32 cpu = cpu_of(p);
	struct cpu_block *b = bpf_map_lookup_elem(&blocks, &cpu);

	if (!p->on_cpu || !b || !is_on(b) || !slot_of(b, p) || b->run_tid == p->pid)
		return 0;
	b->begun_at = bpf_ktime_get_ns();
	__sync_lock_test_and_set(&b->begun_tid, p->pid); /* after the store above */
	if (!p->on_cpu || p->nvcsw + p->nivcsw != switches) /* it has left that CPU meanwhile */
		b->begun_tid = 0;
	return 0;
}

static __noinline int sleeps_at_start(struct bpf_iter__task *ctx, struct cpu_block *b, struct task_struct *p)
{
	__u32 state = p->__state;
	struct activation a;

	if ((options & OPT_CHOSEN_ONLY) && !find_waking(p->pid))
		return 0;
	activation_begun(&a, p, bpf_ktime_get_ns());
	a.out_at = a.in_at;
	blocks_in(b, &a, p, state, false);
	a.stamp = 1;
	if (state && !p->on_rq && a.blocks == (__u16)p->nvcsw) /* it was not woken meanwhile */
		bpf_seq_write(ctx->meta->seq, &a, sizeof(a));
	return 0;
}

/* `p` is measured from now on, and may be at work. */
static __always_inline int begins_at_work(struct cpu_block *b, struct task_struct *p)
{
	if (!bpf_core_field_exists(p->on_cpu))
		return 0;
	if (waits_for_a_cpu(p))
		return waits_at_start(b, p);
	return options & OPT_ACTIVATIONS && p->on_cpu ? runs_at_start(p) : 0;
}

SEC("iter/task")
int on_each_task(struct bpf_iter__task *ctx)
{
	struct cpu_block *b = any_block();
	struct task_struct *p = ctx->task;

	if (!b || !p || !is_measured(p) || p->flags & PF_EXITING)
		return 0;
	if (options & OPT_ACTIVATIONS && p->__state && !p->on_cpu)
		return sleeps_at_start(ctx, b, p);
	return begins_at_work(b, p);
}
