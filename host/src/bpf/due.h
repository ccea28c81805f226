/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* When a timer is due: at its programmed expiry, but not before it was armed (a thread that sleeps until a time that has
 * passed is late by its own doing), and not before its clock was set (a step makes timers due, not late).
 * Not covered: a timer that an interrupt armed late; its expiry counts.
 * The PREEMPT_RT patch kept the time of arming in the timer itself (`praecox`); a BPF program may not write there, so a
 * table holds it: an entry lives from the arming until the timer's handler, which follows at once. */

#define ARMED_SLOTS 256
#define HRTIMER_MODE_REL 1 /* include/linux/hrtimer.h */
#define CLOCKS 4	   /* indices of the bases: monotonic, real, boot, tai; then the soft ones */

struct armed {
	__u64 timer;
	__u64 at;
	__s32 by; /* the thread that armed it */
	__s32 pad;
};
struct armed armed_late[ARMED_SLOTS];

/* Offset of a clock to CLOCK_MONOTONIC as last seen, and when it was first seen to differ. It changes when the clock is set
 * or the machine was suspended, not by slewing. */
struct clock_seen {
	__s64 offset;
	__u64 since; /* 1: known, never set */
};
struct clock_seen clocks_seen[CLOCKS];
#define REAL 1 /* indices of the clocks that are set */
#define BOOT 2
#define TAI 3

/* Slot by expiry: the verifier forbids arithmetic on a timer's address. */
static __always_inline struct armed *armed_slot(__u64 expires)
{
	__u32 slot = (expires * 0x9e3779b97f4a7c15ull) >> 56;

	barrier_var(slot); /* keeps the compiler from dropping the mask that the verifier needs */
	return &armed_late[slot & (ARMED_SLOTS - 1)];
}

static __always_inline struct clock_seen *clock_of(__u32 which)
{
	barrier_var(which); /* keeps the compiler from dropping the mask that the verifier needs */
	return &clocks_seen[which & (CLOCKS - 1)];
}

static __always_inline void clock_seen_with(__u32 which, __s64 offset, __u64 at)
{
	struct clock_seen *clock = &clocks_seen[which];

	if (clock->since && clock->offset == offset)
		return;
	clock->offset = offset;
	clock->since = clock->since ? at : 1;
}

/* Called from a timer's handler: the kernel has just updated this CPU's clock offsets, which otherwise may be stale.
 * Returns a time of CLOCK_MONOTONIC; `armed`: it was due before it was armed. */
static __always_inline __u64 due_since(struct hrtimer *timer, __u64 at, bool *armed)
{
	struct hrtimer_clock_base *base = timer->base;
	__s64 offset = base->offset;
	struct armed *a;
	/* A time of CLOCK_REALTIME may be before the boot. */
	__s64 expires = timer->node.expires - offset;
	__u64 due = expires > 0 ? expires : 0, set;

	*armed = false;
	/* Checked in every timer handler, the tick's too: a clock may be set and set back while none of its timers expires, and the
	 * first of them to expire long after it was set is late all the same. */
	clock_seen_with(REAL, base->cpu_base->clock_base[REAL].offset, at);
	clock_seen_with(BOOT, base->cpu_base->clock_base[BOOT].offset, at);
	clock_seen_with(TAI, base->cpu_base->clock_base[TAI].offset, at);
	if (offset) {
		set = clock_of(base->index)->since;
		if (set > due)
			due = set;
	}
	a = armed_slot(timer->node.expires);
	if (a->timer == (__u64)timer) {
		a->timer = 0;
		if (a->at > due) {
			due = a->at;
			*armed = true;
		}
	}
	return due;
}

/* By how much a thread other than that of `w` armed the timer that wakes it after it was due; 0: none did. */
static __always_inline __u64 armed_after(struct waking *w, struct open_timer *t)
{
	struct hrtimer *timer = (struct hrtimer *)*(volatile __u64 *)&t->timer;
	__u64 expires = BPF_CORE_READ(timer, node.expires);
	__s64 offset = BPF_CORE_READ(timer, base, offset), due = expires - offset;
	struct armed *a = armed_slot(expires);

	if (a->at != t->expires || a->by == w->tid || due <= 0 || due >= (__s64)t->expires)
		return 0;
	if (offset && clock_of(BPF_CORE_READ(timer, base, index))->since > (__u64)due)
		return 0; /* a step made it due */
	return t->expires - due;
}

/* The time it wanted to sleep until had passed, or the timer had expired, without blocking. */
static __always_inline void slept_late(struct activation *activation, __u64 at, __u64 until)
{
	if (activation->late_sleeps < MOST_16)
		activation->late_sleeps++;
	activation->late_sleep = until;
	if (at - until > activation->late_by)
		activation->late_by = at - until;
}

static __always_inline bool is_of_timerfd(struct hrtimer *timer)
{
	return bpf_core_field_exists(timer->function) && &timerfd_tmrproc &&
	       (__u64)timer->function == (__u64)&timerfd_tmrproc;
}

/* The timeout of a call, which its thread arms. It is on the thread's stack, at another address in each call
 * (randomize_kstack_offset). */
static __always_inline bool is_of_call(struct hrtimer *timer)
{
	return bpf_core_field_exists(timer->function) && &hrtimer_wakeup &&
	       (__u64)timer->function == (__u64)&hrtimer_wakeup;
}

static __always_inline bool sends_a_signal(struct hrtimer *timer)
{
	__u64 function;

	if (!bpf_core_field_exists(timer->function))
		return false;
	function = (__u64)timer->function;
	return (&posix_timer_fn && function == (__u64)&posix_timer_fn) ||
	       (&it_real_fn && function == (__u64)&it_real_fn);
}

/* Periodic timers of these kinds are re-armed by the thread that consumes the expiry: by reading the timerfd, or by taking
 * the timer's signal. */
static __always_inline bool is_armed_by_reader(struct hrtimer *timer)
{
	return is_of_timerfd(timer) || sends_a_signal(timer);
}

static __always_inline bool in_interrupt(struct cpu_block *b)
{
	return b->timer[0].timer || b->window[LEVEL_IRQ].open || b->window[LEVEL_VECTOR].open;
}

/* Whether the thread that arms it waits for it. Other timers are armed in passing: waking a real-time task starts the
 * period of RT bandwidth (start_rt_bandwidth(), kernel/sched/rt.c), which is due at once. */
static __always_inline bool is_waited_for(struct hrtimer *timer)
{
	__u64 function;

	if (!bpf_core_field_exists(timer->function) || !&hrtimer_wakeup)
		return true; /* indistinguishable */
	function = (__u64)timer->function;
	return function == (__u64)&hrtimer_wakeup || function == (__u64)&timerfd_tmrproc || sends_a_signal(timer);
}

/* `low` becomes the timer that the thread armed last, due at `due`. Returns when it was due before; 0: unknown. */
static __always_inline __u64 armed_again(struct waking *w, __u32 low, __u64 due)
{
	__u64 last = w->armed;
	__u32 i, timer = w->armed_timer;

	w->armed = due;
	w->armed_timer = low;
	if (timer == low)
		return last;
	/* Those before it move back by one. */
#pragma unroll
	for (i = 0; i < MORE_TIMERS; i++) {
		__u64 moved = w->more_armed[i];
		__u32 of = w->more_timers[i];

		w->more_armed[i] = last;
		w->more_timers[i] = timer;
		if (of == low)
			return moved;
		last = moved;
		timer = of;
	}
	return 0;
}

/* The thread did not wait for its release at `due`. A signal may also be taken by a handler that interrupts the thread:
 * that is not an overrun. */
static __always_inline void reader_overran(struct cpu_block *b, __u64 at, __u64 due, struct waking *w,
					   struct task_struct *p, bool by_signal)
{
	bool takes = takes_a_release(b, p);

	if (by_signal && !takes)
		return;
	slept_late(open_activation(b), at, due);
	if (takes)
		activation_returns(b, at, w, p);
}

/* A thread that reads a timerfd or takes the signal of a timer re-arms it: at once if it is periodic, else for its next
 * job. If the timer had expired without waking the thread, the call did not block: the thread had overrun it.
 * Not covered: clocks that can be set, since a step makes timers due. */
static __always_inline void reader_armed(__u64 at, struct hrtimer *timer, __u32 mode, bool in_time)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cpu_block *b = any_block();
	struct waking *w;
	__u64 was, due;
	bool known;

	if (!b || in_interrupt(b))
		return;
	w = find_waking(p->pid);
	if (!w)
		return;
	/* Without an activation its waking was not recorded, and its waker is unknown. */
	known = b->run_tid && b->run_tid == w->tid;
	due = known && in_time && !(mode & HRTIMER_MODE_REL) && !timer->base->offset ? timer->node.expires : 0;
	was = armed_again(w, address_of(b, timer), due);
	if (known && was && was <= at && was != w->woken_due)
		reader_overran(b, at, was, w, p, !is_of_timerfd(timer));
}

/* The current thread sleeps at once. The place of its timer on the stack is kept for sleep_was_over(), unless that is due
 * already; also if the start of the activation was not seen. */
static __always_inline void sleep_asked(struct cpu_block *b, __u64 at, struct hrtimer *timer, bool in_time)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct waking *w = find_waking(p->pid);
	__u64 address;

	if (!w)
		return;
	address = address_of(b, timer);
	w->sleep = in_time ? address - (__u64)p->stack : 0;
	if (b->run_tid != p->pid)
		return;
	b->asked_at = at;
	b->asked_timer = address;
}

/* Whether the handler of a sleep's timer has yet to run, or to end; 0 for a sleep that is over. As hrtimer_active(). */
static __always_inline bool is_pending(struct hrtimer_sleeper *sleeper, struct task_struct *p)
{
	struct hrtimer *timer = &sleeper->timer;
	struct task_struct *wakes;

	if (!bpf_core_field_exists(timer->state) || !bpf_core_field_exists(timer->function) || !&hrtimer_wakeup)
		return false; /* indistinguishable */
	wakes = BPF_CORE_READ(sleeper, task);
	/* The stack may hold something else by now. */
	if ((wakes && wakes != p) || (__u64)BPF_CORE_READ(sleeper, timer.function) != (__u64)&hrtimer_wakeup)
		return false;
	/* Its handler clears the task before it wakes it. */
	return (wakes && BPF_CORE_READ(sleeper, timer.state)) || BPF_CORE_READ(sleeper, timer.base, running) == timer;
}

/* Whether the freezer of cgroup v1 thaws it. A thread that it froze in its wait is not woken by what ends the wait. */
static __always_inline bool is_frozen(struct task_struct *p)
{
	return bpf_core_field_exists(p->__state) && (p->__state & TASK_FROZEN);
}

/* Whether that handler ran while `p` was frozen in its sleep. */
static __always_inline bool is_thawed(struct hrtimer_sleeper *sleeper, struct task_struct *p)
{
	return bpf_core_field_exists(sleeper->timer.function) && &hrtimer_wakeup && is_frozen(p) &&
	       !BPF_CORE_READ(sleeper, task) &&
	       (__u64)BPF_CORE_READ(sleeper, timer.function) == (__u64)&hrtimer_wakeup;
}

/* Something else wakes `p` before the timer of its sleep does, which is late: its CPU had interrupts off, say. It is still
 * late since that timer was due, as if that had woken it. */
static __always_inline void sleep_was_over(struct waking *w, struct task_struct *p, __u64 at, bool ordinary)
{
	struct hrtimer_sleeper *sleeper = (void *)((__u64)p->stack + w->sleep);
	struct clock_seen *clock;
	__u64 due, slack = 0;
	__s64 offset;
	bool thawed;

	w->sleep = 0;
	thawed = is_thawed(sleeper, p);
	if (!is_pending(sleeper, p) && !thawed)
		return;
	offset = BPF_CORE_READ(sleeper, timer.base, offset);
	if (ordinary && bpf_core_field_exists(sleeper->timer._softexpires))
		slack = BPF_CORE_READ(sleeper, timer.node.expires) - BPF_CORE_READ(sleeper, timer._softexpires);
	due = BPF_CORE_READ(sleeper, timer.node.expires) - offset - slack;
	/* A time before the boot wraps. */
	if (due > at || (w->expires && w->expires <= due))
		return;
	if (offset) {
		clock = clock_of(BPF_CORE_READ(sleeper, timer.base, index));
		if (clock->offset != offset || clock->since > due)
			return; /* a step made it due */
	}
	w->expires = due;
	w->entry = thawed ? due : at; /* that one was not late */
	w->slack = slack < at - due ? slack : at - due;
	w->via = VIA_TIMER;
	w->flags = 0;
	w->source = 0;
}

/* hrtimer_start; interrupts are off. Relative timers cannot be due already. */
static __always_inline int timer_armed(struct hrtimer *timer, __u32 mode)
{
	struct hrtimer_clock_base *base = timer->base;
	__s64 offset = base->offset, asked = timer->node.expires;
	bool followed = options & OPT_ACTIVATIONS, by_reader = followed && is_armed_by_reader(timer), sleeps;
	struct cpu_block *b = any_block();
	struct armed *a;
	__u64 at;

	if (is_over())
		return 0;
	sleeps = followed && b && is_of_call(timer);
	if ((mode & HRTIMER_MODE_REL) && !by_reader && !sleeps)
		return 0;
	at = bpf_ktime_get_ns();
	if (sleeps)
		sleep_asked(b, at, timer, timer->node.expires - offset > (__s64)at);
	if (bpf_core_field_exists(timer->_softexpires))
		asked = timer->_softexpires;
	if (by_reader)
		reader_armed(at, timer, mode, asked - offset > (__s64)at);
	if ((mode & HRTIMER_MODE_REL) || asked - offset > (__s64)at)
		return 0;
	if (!b || in_interrupt(b))
		return 0;
	if (timer->node.expires - offset <= (__s64)at) {
		a = armed_slot(timer->node.expires);
		a->at = at;
		a->by = current_tid();
		a->timer = (__u64)timer;
	}
	if (followed && b->run_tid && b->run_tid == current_tid() && is_waited_for(timer))
		slept_late(open_activation(b), at, asked - offset);
	return 0;
}
