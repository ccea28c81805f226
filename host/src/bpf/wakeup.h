/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Latencies of real-time tasks:
 *   timer         programmed expiry -> its handler begins         (hrtimer_expire_entry), when it wakes such a task
 *   wakeup        waking -> switched in                           (sched_waking, sched_switch)
 *   timer+wakeup  programmed expiry -> switched in, when a timer woke the task
 * A task whose timer comes before it has left the CPU is not switched in: it has a timer and a timer+wakeup (to the
 * waking), and no wakeup.
 * All are filed under the CPU that the task was switched in on, also when another CPU's timer or waker was first:
 * so wakings are remembered on every CPU, recorded or not.
 * A preemption is not a wake-up: a task that was switched out runnable has no waking to be late after.
 * Not in it: the way from the switch to user space. */

struct waking {
	__u64 at;      /* 0: nothing pending */
	__u64 expires; /* 0: not woken by a timer */
	__u64 entry;   /* when that timer's handler began */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH); /* preallocated: task storage allocates, which PREEMPT_RT forbids here */
	__uint(max_entries, 8192);
	__type(key, __s32);
	__type(value, struct waking);
} wakings SEC(".maps");

static __always_inline bool is_measured(struct cpu_block *b, struct task_struct *p)
{
	return p->prio < MAX_RT_PRIO && ((b->options & OPT_KERNEL_THREADS) || !(p->flags & PF_KTHREAD));
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
					 __u64 expires, __u64 entry)
{
	__u64 total = at - (expires ?: waking);

	__sync_fetch_and_add(&b->hist_seq, 1);
	if (waking)
		hist_add(&b->hist[Q_WAKEUP], at, at - waking);
	if (expires) {
		hist_add(&b->hist[Q_TIMER], at, entry - expires);
		hist_add(&b->hist[Q_BOTH], at, total);
	}
	__sync_fetch_and_add(&b->hist_seq, 1);
	if (total < b->threshold_ns)
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
	struct waking fresh = {}, *w;
	struct open_timer *t;
	__s32 tid = p->pid;

	if (!is_measured(b, p))
		return;
	w = bpf_map_lookup_elem(&wakings, &tid);
	if (!w) {
		if (b->options & OPT_CHOSEN_ONLY)
			return;
		bpf_map_update_elem(&wakings, &tid, &fresh, BPF_NOEXIST);
		w = bpf_map_lookup_elem(&wakings, &tid);
		if (!w) {
			lose(b, LOST_PENDING_FULL);
			return;
		}
	}
	t = running_timer(b);
	if (t && !t->expires)
		t = 0;
	if (t)
		t->late = t->entry - t->expires > b->late_timer_ns;
	/* The timer came while the task was still on its way to sleep: it goes on running, no switch will follow. */
	if (tid == (__s32)bpf_get_current_pid_tgid()) {
		w->at = 0;
		if (t && b->on && wakeup_ended(b, at, p, 0, t->expires, t->entry))
			__sync_fetch_and_or(&b->request, TRIGGER_KERNEL);
		return;
	}
	w->at = at;
	w->expires = t ? t->expires : 0;
	w->entry = t ? t->entry : 0;
}

/* A measured task that leaves the CPU runnable has run since its waking. */
static __always_inline void wakeup_switched_out(struct task_struct *prev, bool runnable)
{
	struct waking *w;
	__s32 tid;

	if (prev->prio >= MAX_RT_PRIO || !runnable)
		return;
	tid = prev->pid;
	w = bpf_map_lookup_elem(&wakings, &tid);
	if (w)
		w->at = 0;
}

/* True when the task came late enough to keep the evidence. */
static __always_inline bool wakeup_switched_in(struct cpu_block *b, __u64 at, struct task_struct *next)
{
	__u64 waking, expires;
	struct waking *w;
	__s32 tid;

	if (!is_measured(b, next))
		return false;
	tid = next->pid;
	w = bpf_map_lookup_elem(&wakings, &tid);
	if (!w || !w->at)
		return false;
	waking = w->at;
	expires = w->expires;
	w->at = 0;
	if (waking > at || expires > at) {
		lose(b, LOST_EARLY);
		return false;
	}
	return wakeup_ended(b, at, next, waking, expires, w->entry);
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
