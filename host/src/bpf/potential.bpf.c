// SPDX-License-Identifier: MIT OR Apache-2.0
// Potential latencies: how long interrupts or preemption were off on a CPU, whether or not a task was waiting.
//   irqsoff         irq_disable -> irq_enable
//   preemptoff      preempt_disable -> preempt_enable
//   preemptirqsoff  both are off -> the first of them is on again (the intersection, as in the PREEMPT_RT patch's
//                   histograms; ftrace's tracer of that name takes the union)
// All on one CPU, gross: interrupts within are included, and so is the cost of the tracepoints. Not in it:
//   idle, where the kernel has both off while it waits for work (cpu_idle; kernel/sched/idle.c stops its own tracers
//   there, too)
//   the time in which a CPU is offline: it goes down and comes back with both off
//   interrupts turned off by the tracepoints themselves: kernels that report these events also where RCU is not
//   watching (include/linux/tracepoint.h: rcuidle) turn interrupts off at each to make it watch: most events by far
// Kernels have these tracepoints with CONFIG_TRACE_IRQFLAGS or CONFIG_TRACE_PREEMPT_TOGGLE (debug kernels, the irqsoff
// and preemptoff tracers). raw_tp and not tp_btf, so that the programs load, and can be tested, on any kernel.
#include "kernel.h"
#include "hist.h"
#include "longest.h"

#define POTENTIALS 3

enum potential { P_IRQ, P_PREEMPT, P_BOTH };
enum off { OFF_IRQ = 1, OFF_PREEMPT = 2, OFF_BOTH = 3 };

struct potential_block {
	__u32 on;  /* record on this CPU */
	__u32 off; /* enum off: what is off now */
	__u64 seq[POTENTIALS]; /* odd while `hist` and `longest` are being written */
	__u64 since[POTENTIALS];
	__u64 from[POTENTIALS];
	__u64 from_by[POTENTIALS];
	__u64 pad[3];
	struct hist hist[POTENTIALS];
	struct longest longest[POTENTIALS];
} __attribute__((aligned(4096)));
_Static_assert(__builtin_offsetof(struct potential_block, hist) == 128, "as in host/src/recorder/potential/block.rs");
_Static_assert(sizeof(struct potential_block) == 278528, "as in host/src/recorder/potential/block.rs");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of possible CPUs before loading */
	__type(key, __u32);
	__type(value, struct potential_block);
} potentials SEC(".maps");

static __always_inline struct potential_block *this_potential(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct potential_block *b = bpf_map_lookup_elem(&potentials, &cpu);

	return b && b->on ? b : 0;
}

static __always_inline void begins(struct potential_block *b, enum potential which, __u64 at, __u64 from, __u64 by)
{
	b->since[which] = at;
	b->from[which] = from;
	b->from_by[which] = by;
}

static __always_inline void ends(struct potential_block *b, void *ctx, enum potential which, __u64 at, __u64 to)
{
	struct longest *l = &b->longest[which];
	__u64 since = b->since[which];

	b->since[which] = 0;
	if (!since || since > at)
		return;
	count_up(&b->seq[which]);
	hist_add(&b->hist[which], at, at - since);
	if (at - since > l->ns)
		is_longest(l, ctx, at - since, at, b->from[which], b->from_by[which], to);
	count_up(&b->seq[which]);
}

static __always_inline int goes_off(__u32 bit, enum potential which, __u64 ip, __u64 by)
{
	struct potential_block *b = this_potential();
	__u64 at;

	if (!b || b->off & bit)
		return 0;
	at = bpf_ktime_get_ns();
	begins(b, which, at, ip, by);
	b->off |= bit;
	if (b->off == OFF_BOTH)
		begins(b, P_BOTH, at, ip, by);
	return 0;
}

static __always_inline int goes_on(void *ctx, __u32 bit, enum potential which, __u64 ip)
{
	struct potential_block *b = this_potential();
	__u64 at;

	if (!b || !(b->off & bit))
		return 0;
	at = bpf_ktime_get_ns();
	if (b->off == OFF_BOTH)
		ends(b, ctx, P_BOTH, at, ip);
	ends(b, ctx, which, at, ip);
	/* Last: taking a stack may itself toggle preemption, which would not be reported to this program recursively. */
	b->off &= ~bit;
	return 0;
}

SEC("raw_tp/irq_disable")
int BPF_PROG(on_irq_disable, unsigned long ip, unsigned long by)
{
	return is_telling(ip) ? 0 : goes_off(OFF_IRQ, P_IRQ, ip, by);
}
SEC("raw_tp/irq_enable")
int BPF_PROG(on_irq_enable, unsigned long ip) { return goes_on(ctx, OFF_IRQ, P_IRQ, ip); }
SEC("raw_tp/preempt_disable")
int BPF_PROG(on_preempt_disable, unsigned long ip, unsigned long by)
{
	return goes_off(OFF_PREEMPT, P_PREEMPT, ip, by);
}
SEC("raw_tp/preempt_enable")
int BPF_PROG(on_preempt_enable, unsigned long ip) { return goes_on(ctx, OFF_PREEMPT, P_PREEMPT, ip); }

/* Idle is not a latency: the time until now is recorded, and counting restarts when idle ends (state -1). */
SEC("raw_tp/cpu_idle")
int BPF_PROG(on_idle, __u32 state)
{
	struct potential_block *b = this_potential();
	__u64 at;

	if (!b)
		return 0;
	at = bpf_ktime_get_ns();
	if (state == (__u32)-1) {
		if (b->off & OFF_IRQ)
			begins(b, P_IRQ, at, 0, 0);
		if (b->off & OFF_PREEMPT)
			begins(b, P_PREEMPT, at, 0, 0);
		if (b->off == OFF_BOTH)
			begins(b, P_BOTH, at, 0, 0);
		return 0;
	}
	ends(b, ctx, P_IRQ, at, 0);
	ends(b, ctx, P_PREEMPT, at, 0);
	ends(b, ctx, P_BOTH, at, 0);
	return 0;
}

/* What was off when it went down is not part of its potential latencies. */
SEC("raw_tp/cpuhp_enter")
int BPF_PROG(on_hotplug, __u32 cpu, __s32 target, __s32 state)
{
	struct potential_block *b = bpf_map_lookup_elem(&potentials, &cpu);

	if (!b || !is_brought_up(state))
		return 0;
	for (int which = 0; which < POTENTIALS; which++)
		b->since[which] = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
