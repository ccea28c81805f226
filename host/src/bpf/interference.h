/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
#include "vector.h"

/* Time taken from threads: hard interrupts per line, system vectors, softirqs, NMIs; count, net total, net maximum. Net:
 * nested interrupts are subtracted (as in kernel/trace/trace_osnoise.c, with one running total: `stolen` grows by the
 * net time of each interrupt that ends, so its growth is the time of the nested ones).
 * Not in it: a few hundred ns of entry and exit code around the tracepoints. On PREEMPT_RT softirqs run in threads and
 * are not interference: their programs are not loaded there. */

static __always_inline void charge(struct source *s, __u64 net)
{
	s->count++;
	s->total_ns += net;
	if (net > s->max_ns)
		s->max_ns = net;
}

/* NMIs have a total of their own: they can arrive between the instructions that add to `stolen`. */
static __always_inline __u64 stolen_so_far(struct cpu_block *b)
{
	return b->stolen + *(volatile __u64 *)&b->nmi_ns;
}

static __always_inline void window_opens(struct cpu_block *b, enum level level, __u64 at, __u64 stolen, __u32 id)
{
	struct open_window *w = &b->window[level];

	w->start = at;
	w->stolen = stolen;
	w->id = id;
	w->open = 1;
}

static __always_inline void window_closes(struct cpu_block *b, enum level level, __u64 at, __u64 stolen, __u32 id,
					  struct source *s)
{
	struct open_window *w = &b->window[level];
	__u64 gross, nested, net;

	if (!w->open || w->id != id) {
		w->open = 0;
		lose(b, LOST_UNMATCHED);
		return;
	}
	w->open = 0;
	if (level != LEVEL_SOFTIRQ)
		b->timer[0].timer = 0; /* hard timers run in hard interrupts: the end of one was missed */
	gross = at - w->start;
	nested = stolen - w->stolen;
	net = gross > nested ? gross - nested : 0;
	charge(s, net);
	if (level == LEVEL_SOFTIRQ)
		__sync_fetch_and_add(&b->stolen, net); /* interrupts are on and add to it too */
	else
		b->stolen += net;
}

/* At a thread switch no interrupt and no hard timer is active: drop windows whose end was missed. */
static __always_inline void windows_end(struct cpu_block *b)
{
	if (b->window[LEVEL_IRQ].open | b->window[LEVEL_VECTOR].open | !!b->timer[0].timer) {
		b->window[LEVEL_IRQ].open = 0;
		b->window[LEVEL_VECTOR].open = 0;
		b->timer[0].timer = 0;
		lose(b, LOST_UNMATCHED);
	}
}

/* On a CPU that is not recorded: it may be the waker's, where the question is whether an interrupt is active. */
#define NO_ID (~0u)

static __always_inline void window_known(struct cpu_block *b, enum level level, bool open)
{
	b->window[level].id = NO_ID; /* if recording starts in between: no start time */
	b->window[level].open = open;
}

static __always_inline int switched_elsewhere(struct cpu_block *b, struct task_struct *prev, struct task_struct *next,
					      __u32 state)
{
	window_known(b, LEVEL_IRQ, false);
	window_known(b, LEVEL_VECTOR, false);
	b->timer[0].timer = 0;
	if (is_over())
		return switched_after_the_end(b, prev, next, state);
	wakeup_elsewhere(next);
	return 0;
}

/* The time and `stolen` at the same moment, although interrupts may arrive in between. */
static __always_inline __u64 now_and_stolen(struct cpu_block *b, enum irqs irqs, __u64 *stolen)
{
	__u64 at;
	__u32 i;

	for (i = 0; i < 4; i++) {
		*stolen = stolen_so_far(b);
		at = bpf_ktime_get_ns();
		if (irqs == IRQS_OFF || *(volatile __u64 *)&b->stolen + *(volatile __u64 *)&b->nmi_ns == *stolen)
			break;
	}
	return at;
}

static __always_inline int begins(enum level level, __u32 kind, enum irqs irqs, __u32 id)
{
	struct cpu_block *b = any_block();
	__u64 at, stolen;

	if (!b)
		return 0;
	if (!is_on(b)) {
		window_known(b, level, true);
		return 0;
	}
	at = now_and_stolen(b, irqs, &stolen);
	flight_word(b, at, kind, irqs, id);
	window_opens(b, level, at, stolen, id);
	return 0;
}

#define AT_FAULT -2 /* in no call, at an instruction that caused a page fault: in that, or just after it */

/* An interrupt shows in which system call a measured thread is, if in any. */
static __always_inline void note_call(void)
{
	struct task_struct *p = bpf_get_current_task_btf();
	struct cpu_block *b = this_block();
	struct pt_regs___syscall *r;
	__s32 call;

	if (!b || !b->run_tid || b->run_tid != p->pid || is_compat(p) || p->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return;
	r = entry_registers(b, p);
#if defined(__TARGET_ARCH_arm64)
	call = BPF_CORE_READ(r, syscallno);
#else
	call = r->orig_ax;
	if (call < 0 && b->faults && r->ip == b->fault_ip)
		call = AT_FAULT;
#endif
	flight_word(b, bpf_ktime_get_ns(), K_IN_CALL, IRQS_OFF, call);
}

static __always_inline int irq_begins(__u32 irq) { return begins(LEVEL_IRQ, K_IRQ_ENTRY, IRQS_OFF, irq); }

static __always_inline int irq_ends(__u32 irq)
{
	struct cpu_block *b = any_block();
	__u64 at, stolen;
	__u32 slot = irq;

	if (!b)
		return 0;
	if (!is_on(b)) {
		window_known(b, LEVEL_IRQ, false);
		return 0;
	}
	if (slot >= IRQ_SLOTS) {
		lose(b, LOST_IRQ_RANGE);
		slot = IRQ_SLOTS - 1;
	}
	barrier_var(slot); /* keeps the compiler from dropping the mask that the verifier needs */
	slot &= IRQ_SLOTS - 1;
	at = now_and_stolen(b, IRQS_OFF, &stolen);
	flight_word(b, at, K_IRQ_EXIT, IRQS_OFF, irq);
	window_closes(b, LEVEL_IRQ, at, stolen, irq, &b->irq[slot]);
	flight_freeze_if_asked(b, at, false);
	return 0;
}

static __always_inline int vector_begins(enum vector vector)
{
	begins(LEVEL_VECTOR, K_VECTOR_ENTRY, IRQS_OFF, vector);
	if (vector == V_LOCAL_TIMER)
		note_call();
	return 0;
}

/* Less than this between two timer interrupts is the normal cost of VM exits. */
#define STEAL_NS 5000

/* Steal time of this CPU as reported by the host. The kernel updates it in the timer interrupt (account_process_tick)
 * and possibly at each update of the run queue's clock, in two sums of which the larger is newer. */
static __always_inline void note_steal(struct cpu_block *b, __u64 at)
{
	struct task_struct *t = bpf_get_current_task_btf();
	__u64 before = b->host_stole_ns, since = b->steal_read_at;
	struct rq *rq;
	__u64 sum = 0, other;

	if (!bpf_core_field_exists(struct sched_entity, cfs_rq) || !bpf_core_field_exists(struct cfs_rq, rq))
		return;
	rq = t->se.cfs_rq->rq;
	if (bpf_core_field_exists(struct rq, prev_steal_time))
		sum = rq->prev_steal_time;
	if (bpf_core_field_exists(struct rq, prev_steal_time_rq)) {
		other = rq->prev_steal_time_rq;
		sum = other > sum ? other : sum;
	}
	b->host_stole_ns = sum;
	b->steal_read_at = at;
	if (since && sum - before >= STEAL_NS)
		flight_wide(b, at, K_STEAL, IRQS_OFF, sum - before, since);
}

static __always_inline int vector_ends(enum vector vector)
{
	struct cpu_block *b = any_block();
	__u64 at, stolen;

	if (!b)
		return 0;
	if (!is_on(b)) {
		window_known(b, LEVEL_VECTOR, false);
		return 0;
	}
	at = now_and_stolen(b, IRQS_OFF, &stolen);
	flight_word(b, at, K_VECTOR_EXIT, IRQS_OFF, vector);
	window_closes(b, LEVEL_VECTOR, at, stolen, vector, &b->vector[vector & (VECTOR_SLOTS - 1)]);
	if (vector == V_LOCAL_TIMER)
		note_steal(b, at);
	flight_freeze_if_asked(b, at, false);
	return 0;
}

static __always_inline int softirq_begins(__u32 vec) { return begins(LEVEL_SOFTIRQ, K_SOFTIRQ_ENTRY, IRQS_ON, vec); }

static __always_inline int softirq_ends(__u32 vec)
{
	struct cpu_block *b = any_block();
	__u64 at, stolen;

	if (!b)
		return 0;
	if (!is_on(b)) {
		window_known(b, LEVEL_SOFTIRQ, false);
		return 0;
	}
	at = now_and_stolen(b, IRQS_ON, &stolen);
	flight_word(b, at, K_SOFTIRQ_EXIT, IRQS_ON, vec);
	window_closes(b, LEVEL_SOFTIRQ, at, stolen, vec, &b->softirq[vec & (SOFTIRQ_SLOTS - 1)]);
	return 0;
}
