/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Latencies of real-time tasks:
 *   timer         programmed expiry -> its handler begins         (hrtimer_expire_entry), when it wakes such a task
 *   wakeup        waking -> switched in                           (sched_waking, sched_switch)
 *   timer+wakeup  programmed expiry -> switched in, when a timer woke the task
 *   sharedprio    waking -> switched in, when a task of equal real-time priority had the CPU meanwhile: the order of
 *                 SCHED_FIFO and no latency of the system, so it is in none of the others
 *   switch        switched in -> out of the scheduler                 (sched_switch, sched_exit_tp)
 * A task whose timer comes before it has left the CPU is not switched in: it has a timer and a timer+wakeup (to the
 * waking), and no wakeup.
 * All are filed under the CPU that the task was switched in on, also when another CPU's timer or waker was first:
 * so wakings are remembered on every CPU, recorded or not.
 * A preemption is not a wake-up: a task that was switched out runnable has no waking to be late after.
 * Not in it: the way from the switch to user space. */

struct {
	__uint(type, BPF_MAP_TYPE_HASH); /* preallocated: task storage allocates, which PREEMPT_RT forbids here */
	__uint(max_entries, 8192);
	__type(key, __s32);
	__type(value, struct waking);
} wakings SEC(".maps");

/* In read-only data: too large for the stack beside everything else. */
static const struct waking no_waking;

static __always_inline bool is_measured(struct cpu_block *b, struct task_struct *p)
{
	if (p->prio >= MAX_RT_PRIO && !(b->options & (OPT_ORDINARY | OPT_CHOSEN_ONLY)))
		return false;
	return (b->options & OPT_KERNEL_THREADS) || !(p->flags & PF_KTHREAD);
}

/* The timer whose callback this CPU runs in this context, if any. A soft timer's callback can be interrupted or,
 * on PREEMPT_RT, preempted: then the waking is not its. */
static __always_inline struct open_timer *running_timer(struct cpu_block *b)
{
	if (b->timer[0].timer)
		return &b->timer[0];
	if (b->timer[1].timer && !b->window[LEVEL_IRQ].open && !b->window[LEVEL_VECTOR].open &&
	    b->timer[1].tid == (__s32)bpf_get_current_pid_tgid())
		return &b->timer[1];
	return 0;
}

/* Files a latency; true when it is large enough to keep the evidence. `waking` 0: it never waited for the CPU. */
static __always_inline bool wakeup_ended(struct cpu_block *b, __u64 at, struct task_struct *p, __u64 waking,
					 __u64 expires, __u64 entry, bool shared)
{
	__u64 total = at - (expires ?: waking);

	__sync_fetch_and_add(&b->hist_seq, 1);
	if (waking)
		hist_add(&b->hist[shared ? Q_SHARED : Q_WAKEUP], at, at - waking);
	if (expires) {
		hist_add(&b->hist[Q_TIMER], at, entry - expires);
		if (!shared)
			hist_add(&b->hist[Q_BOTH], at, total);
	}
	__sync_fetch_and_add(&b->hist_seq, 1);
	if (total < b->threshold_ns || shared)
		return false;
	if (total > b->victim_ns) {
		b->victim_ns = total;
		b->victim_at = at;
		b->victim_tid = p->pid;
		b->victim_prio = p->prio;
		*(__u64 *)&b->victim_comm[0] = *(__u64 *)&p->comm[0];
		*(__u64 *)&b->victim_comm[8] = *(__u64 *)&p->comm[8];
	}
	return true;
}

static __always_inline void wakeup_waking(struct cpu_block *b, __u64 at, struct task_struct *p)
{
	struct open_timer *t;
	__s32 tid = p->pid;
	struct waking *w;

	w = bpf_map_lookup_elem(&wakings, &tid);
	if (!w) {
		if (b->options & OPT_CHOSEN_ONLY)
			return;
		bpf_map_update_elem(&wakings, &tid, &no_waking, BPF_NOEXIST);
		w = bpf_map_lookup_elem(&wakings, &tid);
		if (!w) {
			lose(b, LOST_PENDING_FULL);
			return;
		}
	}
	t = running_timer(b);
	if (b->options & OPT_ACTIVATIONS)
		activation_waking(b, w, t);
	if (t && !t->expires)
		t = 0;
	if (t)
		t->late = t->entry - t->expires > b->late_timer_ns;
	/* The timer came while the task was still on its way to sleep: it goes on running, no switch will follow. */
	if (tid == (__s32)bpf_get_current_pid_tgid()) {
		w->at = 0;
		if (t && b->on && wakeup_ended(b, at, p, 0, t->expires, t->entry, false))
			__sync_fetch_and_or(&b->request, TRIGGER_KERNEL);
		return;
	}
	w->at = at;
	w->expires = t ? t->expires : 0;
	w->entry = t ? t->entry : 0;
}

/* Null for a task that is not real time (a deadline task has priority -1). */
static __always_inline struct seen *seen_of(struct cpu_block *b, __u32 prio)
{
	if (prio >= MAX_RT_PRIO)
		return 0;
	barrier_var(prio); /* or the compiler drops the mask that the verifier needs to see */
	return &b->seen[prio & (SEEN_SLOTS - 1)];
}

/* A measured task that leaves the CPU runnable has run since its waking; one that blocks has ended an activation. */
static __always_inline void wakeup_switched_out(struct cpu_block *b, __u64 at, struct task_struct *prev, bool runnable)
{
	bool ours = b->run.tid && b->run.tid == prev->pid;
	struct seen *seen = seen_of(b, prev->prio);
	struct waking *w;
	__s32 tid;

	if (seen) {
		seen->at = at;
		seen->tid = prev->pid;
	}
	if (!ours && (!runnable || !is_measured(b, prev)))
		return;
	if (ours && !runnable) {
		activation_blocks(b, at, prev);
		return;
	}
	tid = prev->pid;
	w = bpf_map_lookup_elem(&wakings, &tid);
	if (w)
		w->at = 0;
	if (ours)
		activation_preempted(b, at, w);
}

/* Whether a task of the same real-time priority came or went on this CPU since `waking`. */
static __always_inline bool shares_priority(struct cpu_block *b, __u64 waking, struct task_struct *next)
{
	struct seen *seen = seen_of(b, next->prio);

	return seen && seen->at >= waking && seen->tid != next->pid;
}

/* True when the task came late enough to keep the evidence. */
static __always_inline bool wakeup_switched_in(struct cpu_block *b, __u64 at, struct task_struct *prev,
					       struct task_struct *next)
{
	__u64 waking, expires;
	struct waking *w;
	bool shared;
	__s32 tid;

	if (!is_measured(b, next))
		return false;
	tid = next->pid;
	w = bpf_map_lookup_elem(&wakings, &tid);
	if (!w)
		return false;
	b->switch_at = at;
	if (!w->at) {
		activation_resumes(b, at, w);
		return false;
	}
	waking = w->at;
	expires = w->expires;
	w->at = 0;
	if (waking > at || expires > at) {
		lose(b, LOST_EARLY);
		return false;
	}
	shared = shares_priority(b, waking, next);
	if (b->options & OPT_ACTIVATIONS)
		activation_begins(b, at, w, waking, prev, next, shared);
	return wakeup_ended(b, at, next, waking, expires, w->entry, shared);
}

static __always_inline void timer_begins(struct cpu_block *b, __u64 at, struct hrtimer *timer)
{
	__u64 expires = timer->node.expires - timer->base->offset;
	struct open_timer *t = &b->timer[!!timer->is_soft];
	__s32 tid = (__s32)bpf_get_current_pid_tgid();
	struct flight_rec *r;
	__u32 stamp;

	if (b->on) {
		r = flight_open(b, at, K_TIMER_ENTRY, &stamp);
		r->current = tid;
		r->flag = !!timer->is_soft;
		r->expires = expires;
		r->wide[0] = (__u64)timer;
		r->wide[1] = bpf_core_field_exists(timer->function) ? (__u64)timer->function : 0;
		flight_close(r, stamp);
	}
	/* A timer with slack may be served before its expiry, together with another one: it is not late then. */
	if (expires > at)
		expires = 0;
	t->timer = (__u64)timer;
	t->expires = expires;
	t->entry = at;
	t->tid = tid;
	t->late = 0;
}

static __always_inline void timer_ends(struct cpu_block *b, void *ctx, __u64 at, struct hrtimer *timer)
{
	/* The callback may have freed the timer: its address is compared, nothing in it is read. */
	struct open_timer *t = &b->timer[b->timer[0].timer != (__u64)timer];

	t->timer = 0;
	if (!b->on)
		return;
	flight_wide(b, at, K_TIMER_EXIT, (__u64)timer, 0);
	/* What the interrupt interrupted is below us on the stack. Taken here, after the waking and only when that was
	 * of a measured task, because a stack costs several us. */
	if (t->late && t == &b->timer[0])
		flight_stack(b, ctx, t->entry, STACK_TIMER_LATE, t->tid);
}
