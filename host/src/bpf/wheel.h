/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* When a timer of the timer wheel is due. The timeout of a call that counts in ticks (schedule_timeout(): SO_RCVTIMEO, VTIME of a
 * terminal) is such a timer. The program asks for a time in ns or µs; the kernel rounds it up to whole ticks from the start of
 * the current one, which is `expires` in jiffies, and never runs the timer before the tick after that one has begun (calc_index(),
 * kernel/time/timer.c, since 4.16). So the program may have asked for any time in the two ticks before that: the thread counts as
 * due at the end of them, and user space allows for both. A long timeout shares the run of others up to an eighth of it later:
 * that is part of its lateness, as slack is, since the program did not ask for it. The latencies of a CPU count from that run.
 *
 * Tick n begins at jiffies_start + n * tick_ns: jiffies advance with CLOCK_MONOTONIC, and are behind it until the tick that
 * updates them. So jiffies_start is the earliest that was seen, and errs to the late side, by a tick at most and by the µs of a
 * tick's interrupt after the first timers.
 * Not covered: a thread that something else wakes while such a timer of its is late. Timers of drivers and protocols are due
 * when the wheel runs them, those that may be deferred are interrupts. */

const volatile __u64 tick_ns SEC(".rodata.tick") = 0;
__u64 jiffies_start; /* CLOCK_MONOTONIC; wraps; 0: unknown */

#define BEYOND_TICK 32 /* in `slack` of an activation */

/* The thread that `t` wakes asked for less than the wheel's run. */
static __always_inline void rounded_up(struct waking *w, struct open_timer *t)
{
	struct timer_list *timer = (struct timer_list *)*(volatile __u64 *)&t->timer;
	__u64 asked, ticks = 0;

	if (t->of != OF_TIMEOUT || !(options & OPT_ACTIVATIONS))
		return;
	asked = jiffies_start + (BPF_CORE_READ(timer, expires) + 1) * tick_ns;
	if (asked < t->expires)
		ticks = (t->expires - asked + tick_ns / 2) / tick_ns;
	w->expires = t->expires - ticks * tick_ns;
	w->slack = ticks << BEYOND_TICK | tick_ns;
}

/* Of the timer that woke it: what the kernel is late after. */
static __always_inline __u64 expiry_of(struct waking *w)
{
	if (options & OPT_ACTIVATIONS && (w->via & (VIA_UNKNOWN | BY_TIMERFD)) == BY_WHEEL)
		return w->woken_due;
	return w->expires;
}

static __always_inline bool is_timeout(struct timer_list *timer)
{
	return bpf_core_field_exists(timer->function) && &process_timeout && (__u64)timer->function == (__u64)&process_timeout;
}

/* `clk`: the tick at which the wheel was to run it. */
SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_wheel_entry, struct timer_list *timer, unsigned long clk)
{
	struct cpu_block *b = any_block();
	struct open_timer *t;
	__u64 at, start;

	if (!b || is_over() || timer->flags & TIMER_DEFERRABLE)
		return 0;
	at = bpf_ktime_get_ns();
	start = at - bpf_jiffies64() * tick_ns;
	if (!jiffies_start || (__s64)(start - jiffies_start) < 0)
		jiffies_start = start;
	t = &b->timer[1];
	t->timer = (__u64)timer;
	t->expires = jiffies_start + clk * tick_ns;
	t->entry = at;
	t->tid = current_tid();
	t->late = 0;
	t->early = 0;
	t->armed_late = 0;
	t->of = is_timeout(timer) ? OF_TIMEOUT : OF_WHEEL;
	if (t->of == OF_TIMEOUT && is_on(b))
		flight_timer(b, at, true, t->expires, 0, (__u64)timer, (__u64)timer->function);
	return 0;
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_wheel_exit, struct timer_list *timer)
{
	struct cpu_block *b = any_block();

	if (!b || b->timer[1].timer != (__u64)timer)
		return 0;
	b->timer[1].timer = 0;
	if (b->timer[1].of == OF_TIMEOUT && is_on(b))
		flight_wide(b, bpf_ktime_get_ns(), K_TIMER_EXIT, IRQS_ON, (__u64)timer, 0);
	return 0;
}
