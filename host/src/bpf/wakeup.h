/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Latencies of real-time tasks:
 *   timer         programmed expiry -> its handler begins         (hrtimer_expire_entry), when it wakes such a task
 *   wakeup        waking -> switched in                           (sched_waking, sched_switch)
 *   timer+wakeup  programmed expiry -> switched in, when a timer woke the task
 *   sharedprio    waking -> switched in, when a task of equal real-time priority had the CPU in between: the order of
 *                 SCHED_FIFO, not a latency of the system, so the others do not include it
 *   switch        switched in -> out of the scheduler                 (sched_switch, sched_exit_tp)
 * A task that is woken before it has left the CPU is not switched in: it has no wakeup, and if a timer woke it, a timer and
 * a timer+wakeup (to the waking).
 * All are recorded for the CPU that the task was switched in on, even if the timer or waker ran on another CPU: so wakings
 * are tracked on every CPU, recorded or not.
 * A preemption is not a wake-up: a task that was switched out runnable has no waking.
 * Not in it: the path from the switch to user space. */
#include "first_block.h"
#include "wheel.h"

static __always_inline bool is_measured(struct task_struct *p)
{
	if (p->prio >= MAX_RT_PRIO && !(options & (OPT_ORDINARY | OPT_CHOSEN_ONLY)))
		return false;
	return (options & OPT_KERNEL_THREADS) || !(p->flags & PF_KTHREAD);
}

/* The timer whose callback this CPU runs in this context, if any. A soft timer's callback can be interrupted or, on
 * PREEMPT_RT, preempted: then the waking is not the timer's. */
static __always_inline struct open_timer *running_timer(struct cpu_block *b, struct task_struct *current)
{
	if (b->timer[0].timer)
		return &b->timer[0];
	if (b->timer[1].timer && !b->window[LEVEL_IRQ].open && !b->window[LEVEL_VECTOR].open &&
	    b->timer[1].tid == current->pid)
		return &b->timer[1];
	return 0;
}

/* Records a latency; true if it is large enough to keep the evidence. `waking` 0: it never waited for the CPU. `shared`: a task of
 * its priority had the CPU meanwhile; `in_order`: for most of the time, as far as is known. */
static __always_inline bool wakeup_ended(struct cpu_block *b, __u64 at, struct task_struct *p, __u64 waking,
					 __u64 expires, __u64 entry, bool shared, bool in_order)
{
	__u64 total = at - (expires ?: waking);

	count_up(&b->hist_seq);
	if (waking)
		hist_add(&b->hist[shared ? Q_SHARED : Q_WAKEUP], at, at - waking);
	if (expires) {
		hist_add(&b->hist[Q_TIMER], at, entry - expires);
		if (!shared)
			hist_add(&b->hist[Q_BOTH], at, total);
	}
	count_up(&b->hist_seq);
	if (total < b->threshold_ns || in_order)
		return false;
	if (b->victim_ns)
		lose(b, LOST_NO_BUFFER); /* one of the two victims */
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

/* Slack that the kernel added to the requested time. */
static __always_inline __u64 slack_of(struct hrtimer *timer)
{
	return bpf_core_field_exists(timer->_softexpires) ? timer->node.expires - timer->_softexpires : 0;
}

/* The slack of a timer is included in its expiry. An ordinary thread's lateness counts from the time it requested;
 * real-time threads have no slack. */
static __always_inline void slack_counts(struct waking *w, struct open_timer *t)
{
	struct hrtimer *timer = (struct hrtimer *)*(volatile __u64 *)&t->timer;
	__u64 slack, end = t->early ? t->entry : t->expires;

	if (!bpf_core_field_exists(timer->_softexpires))
		return;
	slack = BPF_CORE_READ(timer, node.expires) - BPF_CORE_READ(timer, _softexpires);
	if (slack >= t->expires || t->expires - slack > t->entry)
		return;
	w->expires = t->expires - slack;
	w->slack = end - w->expires;
}

/* The timer by which `waker` wakes, unless it ran before its expiry and `slack` does not count. */
static __always_inline struct open_timer *waking_timer(struct cpu_block *b, struct waking *w, struct task_struct *waker,
						       bool slack)
{
	struct open_timer *t = running_timer(b, waker);

	if (options & OPT_ACTIVATIONS)
		activation_waking(b, w, t, waker);
	if (!t || (t->early && !slack))
		return 0;
	t->late = !t->early && t->entry - t->expires > b->late_timer_ns;
	w->woken_due = t->expires;
	return t;
}

/* The task was still going to sleep: it keeps running, no switch will follow. */
static __always_inline void wakeup_on_the_way(struct cpu_block *b, __u64 at, struct waking *w, struct task_struct *p)
{
	w->at = 0;
	if (!is_on(b))
		return;
	if (options & OPT_ACTIVATIONS)
		activation_turns(b, at, w, p);
	if (w->expires && wakeup_ended(b, at, p, 0, expiry_of(w), w->entry, false, false))
		__sync_fetch_and_or(&b->request, TRIGGER_KERNEL);
}

static __always_inline void wakeup_waking(struct cpu_block *b, __u64 at, struct task_struct *waker, struct task_struct *p)
{
	bool ordinary = p->prio >= MAX_RT_PRIO, was_stopped;
	struct open_timer *t;
	__s32 tid = p->pid;
	struct waking *w;

	w = find_waking(tid);
	/* A waking of an exiting thread would take a slot that is never freed. */
	if (!w && !(options & OPT_CHOSEN_ONLY) && !(p->flags & PF_EXITING)) {
		w = claim_waking(b, tid);
		if (w)
			sleeps_unmeasured(b, at, w, p);
	}
	if (!w)
		return;
	was_stopped = w->via & LEFT_STOPPED;
	t = waking_timer(b, w, waker, ordinary);
	w->expires = t && !t->early ? t->expires : 0;
	w->entry = t ? t->entry : 0;
	w->slack = 0;
	if (t && t->armed_late)
		w->slack = armed_after(w, t);
	else if (t && t->of >= OF_WHEEL)
		rounded_up(w, t);
	else if (t && ordinary)
		slack_counts(w, t);
	if (w->sleep && !(t && t->of == OF_CALL))
		sleep_was_over(w, p, at, ordinary);
	w->sleep = 0;
	if ((options & OPT_ACTIVATIONS) && ordinary && is_out_of_quota(p))
		w->via |= WOKEN_OUT_OF_QUOTA;
	if ((options & OPT_ACTIVATIONS) && !w->expires && !was_stopped && is_frozen(p))
		w->flags |= ACT_AFTER_UNSEEN; /* its release was not seen */
	waits_as_real_time(p, 1);
	w->at = at;
	if (tid == waker->pid)
		wakeup_on_the_way(b, at, w, p);
}

/* What the kernel still does for it is not part of its last job. */
static __always_inline int thread_ends(struct cpu_block *b, struct task_struct *p)
{
	struct waking *w = find_waking(p->pid);
	__u16 jobs = w && p->policy == SCHED_DEADLINE ? w->jobs : 0;

	if (w && !is_over())
		give_back(w);
	if (b && is_on(b) && is_open(b, p))
		activation_exits(b, bpf_ktime_get_ns(), p, jobs);
	return 0;
}

/* The task that leaves is not the one last switched in: the kernel did not report the switches in between. A kernel may
 * hide the switches of some threads, and wakings in their context; a 6.18 guest of Firecracker does so for its agent. A
 * task switched in unseen was woken, seen or not, unless it had been preempted. */
static __noinline int wakeup_unseen(struct cpu_block *b, struct task_struct *prev)
{
	struct waking *w = is_measured(prev) ? find_waking(prev->pid) : 0;
	__s32 hidden = b->running - 1;

	lose(b, LOST_SWITCH);
	b->hidden_tid = hidden;
	if ((w && (w->at || !w->preempted)) || (hidden && find_waking(hidden)))
		lose(b, LOST_WAKEUP);
	if (w)
		w->at = 0;
	return 0;
}

/* A task gets a CPU that is not recorded: a later switch-in here must not count as late after that waking. */
static __always_inline void wakeup_elsewhere(struct task_struct *next)
{
	struct waking *w = is_measured(next) || waits_demoted(next) ? find_waking(next->pid) : 0;

	if (!w)
		return;
	w->at = 0;
	w->preempted = 0;
}

/* Woken as a real-time task, ordinary since, and now PI-boosted: it may have run in between, so the old waking no longer
 * counts. A priority set by a system call is not seen here. */
static __always_inline void wakeup_boosted(struct task_struct *p)
{
	struct waking *w = is_measured(p) ? 0 : find_waking(p->pid);

	if (w)
		w->at = 0;
}

/* Null for a task that is not real-time (a deadline task has priority -1). */
static __always_inline struct seen *seen_of(struct cpu_block *b, __u32 prio)
{
	if (prio >= MAX_RT_PRIO)
		return 0;
	barrier_var(prio); /* keeps the compiler from dropping the mask that the verifier needs */
	return &b->seen[prio & (SEEN_SLOTS - 1)];
}

/* A deadline task ends its job by sched_yield(): it is throttled while runnable until its own timer replenishes it at its
 * next period. No event reports that waking. The field is accessed from the task on: from `&p->dl` on, clang would count
 * the offset of `dl` twice. */
static __always_inline bool ends_job(struct task_struct *p)
{
	return p->policy == SCHED_DEADLINE && BPF_CORE_READ_BITFIELD_PROBED(p, dl.dl_yielded);
}

static __always_inline struct waking *job_ended(struct cpu_block *b, struct waking *w, struct task_struct *p)
{
	if (!w && !(options & OPT_CHOSEN_ONLY))
		w = claim_waking(b, p->pid);
	if (!w)
		return 0;
	w->jobs++;
	w->job_ended = 1;
	w->armed = 0;
	w->armed_timer = address_of(b, &p->dl.dl_timer);
	return w;
}

/* The handler of a deadline task's timer begins: its next job is released. */
static __always_inline void job_released(struct cpu_block *b, struct open_timer *t)
{
	__u64 timer = *(volatile __u64 *)&t->timer;
	__u64 task = timer - bpf_core_field_offset(struct task_struct, dl) -
		     bpf_core_field_offset(struct sched_dl_entity, dl_timer);
	struct waking *w;
	__s32 tid = 0;

	bpf_probe_read_kernel(&tid, sizeof(tid), (void *)(task + bpf_core_field_offset(struct task_struct, pid)));
	/* The kernel's deadline servers have such timers too, and belong to no task. */
	w = tid ? find_waking(tid) : 0;
	if (!w || !w->job_ended || w->armed_timer != (__u32)timer)
		return;
	w->job_ended = 0;
	if (!waking_timer(b, w, bpf_get_current_task_btf(), false))
		return;
	w->slack = 0;
	w->at = t->entry;
	w->expires = t->expires;
	w->entry = t->entry;
}

/* A measured task that leaves the CPU runnable has run since its waking; one that blocks has ended an activation. */
static __always_inline void wakeup_switched_out(struct cpu_block *b, __u64 at, struct task_struct *prev, __u32 state)
{
	bool runnable = !state, ours = is_open(b, prev);
	struct seen *seen = seen_of(b, prev->prio);
	struct waking *w;
	__s32 tid;

	if (seen && !is_stopper(prev)) {
		seen->at = at;
		seen->tid = prev->pid;
	}
	if (!ours && !is_measured(prev))
		return;
	if (!ours && !runnable) {
		blocks_first(b, at, prev, state);
		return;
	}
	if (ours && !runnable) {
		w = prev->policy == SCHED_DEADLINE || is_stop(state) ? find_waking(prev->pid) : 0;
		activation_blocks(b, at, prev, w && prev->policy == SCHED_DEADLINE ? w->jobs : 0, state);
		if (w && is_stop(state))
			w->via = LEFT_STOPPED;
		return;
	}
	tid = prev->pid;
	w = find_waking(tid);
	if (w)
		w->at = 0;
	if (ends_job(prev)) {
		w = job_ended(b, w, prev);
		if (ours)
			activation_blocks(b, at, prev, w ? w->jobs : 0, state);
		return;
	}
	if (ours)
		activation_preempted(b, at, w, prev);
	else if (!w)
		preempted_first(b, at, prev);
	else if (options & OPT_ACTIVATIONS)
		unseen_preempted(w, prev);
}

/* Whether a task of the same real-time priority was switched out on this CPU since `waking`: it had the CPU in between. */
static __always_inline bool shares_priority(struct cpu_block *b, __u64 waking, struct task_struct *next)
{
	struct seen *seen = seen_of(b, next->prio);

	return seen && seen->at >= waking && seen->tid != next->pid;
}

/* True if the task was switched in late enough to keep the evidence. */
static __always_inline bool wakeup_switched_in(struct cpu_block *b, __u64 at, struct task_struct *prev,
					       struct task_struct *next)
{
	__u64 waking, expires;
	struct waking *w;
	bool shared;
	__s32 tid;

	if (!is_measured(next) && !waits_demoted(next))
		return false;
	tid = next->pid;
	waits_as_real_time(next, 0);
	w = find_waking(tid);
	if (!w)
		return false;
	if (options & OPT_SWITCH)
		b->switch_at = at;
	if (!w->at) {
		activation_resumes(b, at, w);
		return false;
	}
	waking = w->at;
	expires = expiry_of(w);
	w->at = 0;
	if (waking > at || expires > at) {
		lose(b, LOST_EARLY);
		return false;
	}
	shared = shares_priority(b, waking, next);
	if (options & OPT_ACTIVATIONS)
		activation_begins(b, at, w, waking, prev, next, shared);
	return wakeup_ended(b, at, next, waking, expires, w->entry, shared, shared && !after_several(b, at, waking));
}

/* The switch that started at sched_switch is complete. */
static __always_inline void switch_ends(struct cpu_block *b, __u64 at)
{
	count_up(&b->hist_seq);
	hist_add(&b->hist[Q_SWITCH], at, at - b->switch_at);
	count_up(&b->hist_seq);
	b->switch_at = 0;
}

static __always_inline void timer_begins(struct cpu_block *b, __u64 at, struct hrtimer *timer)
{
	bool soft = timer->is_soft, armed_late;
	__u64 expires = due_since(timer, at, &armed_late), slack = armed_late ? 0 : slack_of(timer);
	struct open_timer *t = &b->timer[soft];
	__s32 tid = current_tid();

	if (is_on(b))
		flight_timer(b, at, soft, expires, slack, (__u64)timer,
			     bpf_core_field_exists(timer->function) ? (__u64)timer->function : 0);
	t->timer = (__u64)timer;
	t->expires = expires;
	t->entry = at;
	t->tid = tid;
	t->late = 0;
	/* A timer with slack may run before its expiry, together with another one: it is not late then. */
	t->early = expires > at;
	t->armed_late = armed_late;
	t->of = is_of_timerfd(timer) ? OF_TIMERFD : is_of_call(timer) ? OF_CALL : OF_OTHER;
	if (!soft && bpf_core_field_exists(timer->function) && &dl_task_timer &&
	    (__u64)timer->function == (__u64)&dl_task_timer)
		job_released(b, t);
}

static __always_inline void timer_ends(struct cpu_block *b, void *ctx, __u64 at, struct hrtimer *timer)
{
	/* The callback may have freed the timer: only its address is compared, it is not read. */
	bool soft = b->timer[0].timer != (__u64)timer;
	struct open_timer *t = &b->timer[soft];

	t->timer = 0;
	if (!is_on(b))
		return;
	flight_wide(b, at, K_TIMER_EXIT, soft ? IRQS_ON : IRQS_OFF, (__u64)timer, 0);
	/* The interrupted code is below us on the stack. Taken here, after the waking and only for a measured task, because a
	 * stack costs several µs. */
	if (t->late && !soft)
		flight_stack(b, ctx, t->entry, STACK_TIMER_LATE, t->tid);
}
