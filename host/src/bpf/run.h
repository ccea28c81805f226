/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Builds an activation (activation.h): waking, switched in, preempted, resumed, blocks. Interrupts are off in all of these
 * except the waking, whose record belongs to its thread alone, and activation_turns(), in which softirqs can run: the
 * interrupts that can arrive there touch no activation. */
#include "begun.h"
#include "quota.h"

static __always_inline __u8 via_timer(__u8 of)
{
	return of == OF_TIMERFD ? VIA_TIMER | BY_TIMERFD : of == OF_TIMEOUT ? BY_WHEEL : VIA_TIMER;
}

static __always_inline void activation_waking(struct cpu_block *b, struct waking *w, struct open_timer *t,
					      struct task_struct *waker)
{
	bool interrupt = b->window[LEVEL_IRQ].open || b->window[LEVEL_VECTOR].open || b->window[LEVEL_SOFTIRQ].open;

	w->flags = t && t->armed_late ? ACT_ARMED_LATE : 0;
	w->via = t ? via_timer(t->of) : interrupt ? VIA_INTERRUPT : VIA_THREAD;
	w->waker_tid = waker->pid;
	w->waker_prio = waker->prio;
	w->waker_cpu = bpf_get_smp_processor_id();
	w->source = t && t->of != OF_CALL && t->of != OF_TIMEOUT ? hash_of(*(volatile __u64 *)&t->timer) : 0;
	copy_comm(w->waker_comm, waker);
}

/* The offset of the registers with which `p` entered the kernel is the same on every thread's stack. The helper that knows
 * it is called once: a kernel call costs more than everything else done with them. */
static __always_inline void *entry_registers(struct cpu_block *b, struct task_struct *p)
{
	void *found;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return (void *)bpf_task_pt_regs(p);
	if (registers_at)
		return bpf_rdonly_cast(p->stack + registers_at, bpf_core_type_id_kernel(struct pt_regs___syscall));
	found = (void *)bpf_task_pt_regs(p);
	registers_at = address_of(b, found) - (__u64)p->stack;
	return found;
}

/* Whether `p` is in a system call with a 32-bit number: of a 32-bit program, or by int 0x80. */
static __always_inline bool is_compat(struct task_struct *p)
{
#if defined(__TARGET_ARCH_arm64)
	return p->thread_info.flags & TIF_32BIT;
#else
	return bpf_core_field_exists(p->thread_info.status) && p->thread_info.status & TS_COMPAT;
#endif
}

#define FUTEX_WAITERS_WORD 2 /* nptl/lowlevellock.h */

static __always_inline __u64 stack_pointer(struct pt_regs___syscall *r)
{
#if defined(__TARGET_ARCH_arm64)
	return BPF_CORE_READ(r, sp);
#else
	return r->sp;
#endif
}

/* Where `p` blocks; `current`: it is the current task, whose stack can be read. */
static __always_inline void blocking_point(struct cpu_block *b, struct activation *a, struct task_struct *p, bool current)
{
	__u32 contended;

	a->argument = 0;
	a->operation = 0;
	a->site = 0;
	a->stack = 0;
	if (p->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER | PF_EXITING)) {
		a->syscall = p->flags & PF_EXITING ? SYSCALL_EXITS : SYSCALL_KERNEL;
		return;
	}
#if defined(__TARGET_ARCH_arm64)
	struct pt_regs___syscall *r = entry_registers(b, p);

	a->syscall = BPF_CORE_READ(r, syscallno);
	a->argument = BPF_CORE_READ(r, orig_x0);
	a->operation = BPF_CORE_READ(r, regs[1]);
	contended = BPF_CORE_READ(r, regs[2]);
	if (is_compat(p))
		a->flags |= ACT_COMPAT;
#else
	struct pt_regs___syscall *r = entry_registers(b, p);

	a->syscall = r->orig_ax;
	if (is_compat(p)) {
		a->flags |= ACT_COMPAT;
		a->argument = (__u32)r->bx;
		a->operation = r->cx;
		return;
	}
	a->argument = r->di;
	a->operation = r->si;
	contended = r->dx;
#endif
	a->flags |= contended == FUTEX_WAITERS_WORD ? ACT_CONTENDED : 0;
	if (current && a->syscall >= 0) {
		a->site = call_site(p, stack_pointer(r));
		a->stack = hash_of(stack_pointer(r));
	}
}

static __always_inline bool is_real_time(__u32 policy)
{
	return policy == SCHED_FIFO || policy == SCHED_RR || policy == SCHED_DEADLINE;
}

/* A thread may change name, policy and priority in its only activation. It counts as real-time if it was at either end. */
static __always_inline void named_in_the_end(struct activation *a, struct task_struct *p)
{
	bool renamed = *(__u64 *)&a->comm[0] != *(__u64 *)&p->comm[0] || *(__u64 *)&a->comm[8] != *(__u64 *)&p->comm[8];

	if (renamed && (find_waking(p->pid) || p->flags & PF_EXITING)) /* else it dropped the selected name */
		copy_comm(a->comm, p);
	if (!is_real_time(p->policy) || is_real_time(a->policy))
		return;
	a->policy = p->policy;
	if (a->prio >= MAX_RT_PRIO)
		a->prio = p->prio;
}

/* `state`: in which it leaves the CPU; `current`: see blocking_point(). */
static __always_inline void blocks_in(struct cpu_block *b, struct activation *a, struct task_struct *p, __u32 state,
				      bool current)
{
	blocking_point(b, a, p, current);
	if (a->syscall >= 0 && !(a->flags & ACT_COMPAT) && is_held_up(p, a->syscall, state))
		a->syscall = SYSCALL_HELD_UP - a->syscall;
	if (is_stop(state)) {
		a->via |= LEFT_STOPPED;
		a->syscall = a->syscall == SYSCALL_NONE ? SYSCALL_STOPPED : a->syscall;
	}
}

/* `jobs`: ended by yielding, which the kernel does not count as blocking; for the others see blocks_in(). */
static __always_inline void activation_ends(struct cpu_block *b, struct activation *a, __u64 at, struct task_struct *p,
					    __u16 jobs, __u32 state, bool current)
{
	a->out_at = at;
	a->blocks = p->nvcsw + jobs;
	named_in_the_end(a, p);
	blocks_in(b, a, p, state, current);
	publish(&a->stamp, b->activations + 1);
	count_up(&b->activations);
}

/* Woken while it was switched out runnable: it had been preempted on its way to sleep, and its activation was over then. If
 * it blocked since, its next switch-in was missed, and the end of the activation is unknown. Or it slept when it came to be
 * measured: `saved` tells where (first_block.h). */
static __noinline int activation_left(struct cpu_block *b, struct waking *w, struct task_struct *p)
{
	struct activation *a = open_activation(b);
	bool slept = w->preempted == SLEPT_UNMEASURED, unseen = !slept && w->preempted != PREEMPTED;

	w->preempted = 0;
	if (w->saved.blocks != (__u16)p->nvcsw)
		return 0;
	if (unseen) {
		w->flags |= ACT_AFTER_UNSEEN;
		return 0;
	}
	publish(&a->stamp, 0);
	*a = w->saved;
	if (slept) {
		publish(&a->stamp, b->activations + 1);
		count_up(&b->activations);
		return 0;
	}
	a->preemptions--;
	a->flags |= ACT_STAYED;
	activation_ends(b, a, a->out_at, p, p->policy == SCHED_DEADLINE ? w->jobs : 0, 0, false);
	return 0;
}

/* Whether `prev` had the CPU for less than half of the wait. Switches that are left out have no time. */
static __always_inline bool after_several(struct cpu_block *b, __u64 at, __u64 waking)
{
	return b->switched_at > waking && (at - b->switched_at) * 2 < at - waking;
}

/* Fills `a` as of the switch to `next`. */
static __always_inline void activation_fill(struct cpu_block *b, struct activation *a, __u64 at, struct waking *w,
					    __u64 waking, struct task_struct *prev, struct task_struct *next,
					    bool shared)
{
	publish(&a->stamp, 0);
	a->waking = waking;
	a->expires = w->expires;
	a->entry = w->entry;
	a->slack = w->slack;
	a->in_at = at;
	a->run_ns = 0;
	a->fault_address = 0;
	a->tid = next->pid;
	a->tgid = next->tgid;
	a->waker_tid = w->waker_tid;
	a->prev_tid = prev->pid;
	a->prio = next->prio;
	a->waker_prio = w->waker_prio;
	a->prev_prio = prev->prio;
	a->preemptions = 0;
	a->faults = 0;
	a->late_sleeps = 0;
	a->late_by = 0;
	a->source = w->source;
	a->cpu = bpf_get_smp_processor_id();
	a->via = w->via | (after_several(b, at, waking) ? AFTER_SEVERAL : 0);
	a->waker_cpu = w->waker_cpu;
	a->flags = w->flags | (shared ? ACT_SHARED : 0);
	a->policy = next->policy;
	a->blocks = next->nvcsw;
	copy_comm(a->comm, next);
	copy_comm(a->prev_comm, prev);
	*(__u64 *)&a->waker_comm[0] = *(__u64 *)&w->waker_comm[0];
	*(__u64 *)&a->waker_comm[8] = *(__u64 *)&w->waker_comm[8];
}

static __always_inline void activation_begins(struct cpu_block *b, __u64 at, struct waking *w, __u64 waking,
					      struct task_struct *prev, struct task_struct *next, bool shared)
{
	if (w->preempted)
		activation_left(b, w, next);
	activation_fill(b, open_activation(b), at, w, waking, prev, next, shared);
	b->run_since = at;
	b->run_tid = next->pid;
}

static __always_inline void activation_leaves(struct cpu_block *b, struct activation *a, __u64 at)
{
	__u64 faults = a->faults + b->left_faults;

	a->run_ns += at - b->run_since;
	a->faults = faults < MOST_16 ? faults : MOST_16;
	if (b->left_faults)
		a->fault_address = b->fault_address;
	b->run_tid = 0;
}

static __always_inline void activation_preempted(struct cpu_block *b, __u64 at, struct waking *w, struct task_struct *p)
{
	struct activation *a = open_activation(b);

	activation_leaves(b, a, at);
	if (a->preemptions < MOST_16)
		a->preemptions++;
	if (p->policy == SCHED_DEADLINE)
		a->via |= OF_RESERVED;
	if (is_throttled(p))
		a->via |= OUT_OF_QUOTA;
	a->out_at = at;
	a->blocks = p->nvcsw;
	if (w) {
		w->saved = *a;
		w->preempted = PREEMPTED;
		waits_as_real_time(p, 1);
	}
}

/* Preempted in an activation whose start was not seen. */
static __always_inline void unseen_preempted(struct waking *w, struct task_struct *p)
{
	if (w->preempted)
		return;
	w->saved.blocks = p->nvcsw;
	w->preempted = PREEMPTED_UNSEEN;
}

static __always_inline void activation_resumes(struct cpu_block *b, __u64 at, struct waking *w)
{
	struct activation *a = open_activation(b);
	bool before = w->preempted == WAITED_BEFORE;
	bool seen = w->preempted == PREEMPTED || (before && options & OPT_ACTIVATIONS);

	if (before)
		wait_before_start_ends(b, at, w);
	w->preempted = 0;
	if (!seen)
		return;
	publish(&a->stamp, 0);
	*a = w->saved;
	b->run_since = at;
	b->run_tid = a->tid; /* last, as user space reads it first (running() in host/src/recorder/unfinished.rs) */
}

static __always_inline void activation_blocks(struct cpu_block *b, __u64 at, struct task_struct *prev, __u16 jobs,
					      __u32 state)
{
	struct activation *a = open_activation(b);

	activation_leaves(b, a, at);
	activation_ends(b, a, at, prev, jobs, state, true);
}

/* Its page faults so far, not yet counted by a switch. */
static __always_inline void stayed_faults(struct cpu_block *b, struct activation *a, __u64 end)
{
	__u64 count = __sync_lock_test_and_set(&b->faults, 0), faults = a->faults + count;
	struct flight_rec *r;
	__u32 stamp;

	if (!count)
		return;
	a->faults = faults < MOST_16 ? faults : MOST_16;
	a->fault_address = b->fault_address;
	r = flight_open(b, end, K_FAULTS, IRQS_ON, &stamp);
	r->current = a->tid;
	r->wide[0] = b->fault_address;
	kinds_of_faults(b, r, count);
	flight_close(r, stamp);
}

/* The activation ended when the thread went to sleep for the timer that wakes it now, else at that waking. */
static __always_inline void activation_stays(struct cpu_block *b, __u64 at, struct waking *w, struct task_struct *p)
{
	struct activation *a = open_activation(b);
	__u64 end = at;

	if (b->asked_timer == b->timer[0].timer && b->asked_at >= a->in_at)
		end = b->asked_at;
	if (end > b->run_since)
		a->run_ns += end - b->run_since;
	stayed_faults(b, a, end);
	a->flags |= ACT_STAYED;
	activation_ends(b, a, end, p, p->policy == SCHED_DEADLINE ? w->jobs : 0, 0, true);
}

/* Calls in which a thread consumes a timer's expiry: its next job begins with them, even if they do not block. */
static __always_inline bool takes_a_release(struct cpu_block *b, struct task_struct *p)
{
	struct pt_regs___syscall *r = entry_registers(b, p);
	__s32 call;

	if (is_compat(p))
		return false;
#if defined(__TARGET_ARCH_arm64)
	call = BPF_CORE_READ(r, syscallno);
	return call == 63 || call == 65 || call == 137; /* read, readv, rt_sigtimedwait */
#else
	call = r->orig_ax;
	return call == 0 || call == 19 || call == 128;
#endif
}

/* A wait for a timer that has expired returns at once: one activation ends and the next begins, due at that expiry
 * (`late_sleep`). */
static __noinline int activation_returns(struct cpu_block *b, __u64 at, struct waking *w, struct task_struct *p)
{
	struct activation *a = open_activation(b);

	if (at > b->run_since)
		a->run_ns += at - b->run_since;
	stayed_faults(b, a, at);
	a->flags |= ACT_STAYED | ACT_AT_ONCE;
	activation_ends(b, a, at, p, p->policy == SCHED_DEADLINE ? w->jobs : 0, 0, true);
	w->expires = 0;
	w->slack = 0;
	w->via = VIA_TIMER;
	w->waker_tid = p->pid;
	w->waker_prio = p->prio;
	w->waker_cpu = bpf_get_smp_processor_id();
	copy_comm(w->waker_comm, p);
	w->flags = ACT_AWAKE | ACT_ARMED_LATE;
	w->source = hash_of(w->armed_timer);
	activation_begins(b, at, w, at, p, p, false);
	w->flags = 0;
	return 0;
}

/* Its thread exits: the kernel counts no block, and nothing follows. */
static __always_inline void activation_exits(struct cpu_block *b, __u64 at, struct task_struct *p, __u16 jobs)
{
	struct activation *a = open_activation(b);

	a->run_ns += at - b->run_since;
	a->flags |= ACT_STAYED;
	b->run_tid = 0;
	activation_ends(b, a, at, p, jobs, 0, true);
}

/* Woken while still going to sleep: one activation ends, whether or not its start was seen, and the next begins. */
static __noinline int activation_turns(struct cpu_block *b, __u64 at, struct waking *w, struct task_struct *p)
{
	if (is_open(b, p)) {
		activation_stays(b, at, w, p);
	} else {
		w->preempted = 0;
		w->flags |= ACT_AFTER_UNSEEN;
	}
	w->flags |= ACT_AWAKE;
	activation_begins(b, at, w, at, p, p, false);
	return 0;
}
