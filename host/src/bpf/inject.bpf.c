// SPDX-License-Identifier: MIT OR Apache-2.0
// Known disturbances: hold a CPU for a given time, with interrupts off, with preemption off, or in a softirq.
// Started by BPF_PROG_TEST_RUN (the softirq by a packet that user space sends to itself), so no kernel module is
// needed. Both ends are timed here: the report states the measured time, not the requested one.
#include "kernel.h"

struct pulse {
	__u64 length_ns; /* in */
	__u64 begin_ns;	 /* out, CLOCK_MONOTONIC */
	__u64 end_ns;	 /* out; 0: did not run */
	__u64 expires_ns; /* timer: hold when the timer with this expiry is started; 0: none */
	__u32 armed;	 /* softirq: hold this CPU + 1 at the next packet */
	__u32 cpu;	 /* out */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct pulse);
} pulses SEC(".maps");

/* kernel/bpf/helpers.c, since 6.14. Without them, hold_irqs_off is not loaded. */
extern void bpf_local_irq_save(unsigned long *flags) __weak __ksym;
extern void bpf_local_irq_restore(unsigned long *flags) __weak __ksym;

struct spin {
	__u64 until;
	__u64 now;
};

static long step(__u32 i, struct spin *s)
{
	s->now = bpf_ktime_get_ns();
	return s->now >= s->until;
}

/* bpf_loop takes 2^23 steps (about 250 ms); two levels reach every allowed length. */
static long round(__u32 i, struct spin *s)
{
	bpf_loop(1 << 23, step, s, 0);
	return s->now >= s->until;
}

static __always_inline void hold(struct pulse *p)
{
	struct spin s = {};

	p->cpu = bpf_get_smp_processor_id();
	p->begin_ns = bpf_ktime_get_ns();
	s.until = p->begin_ns + p->length_ns;
	bpf_loop(1 << 10, round, &s, 0);
	p->end_ns = s.now;
}

static __always_inline struct pulse *the_pulse(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pulses, &zero);
}

/* On the calling CPU: preemption is off. */
SEC("raw_tp")
int hold_here(void *ctx)
{
	struct pulse *p = the_pulse();

	if (p)
		hold(p);
	return 0;
}

SEC("syscall")
int hold_irqs_off(void *ctx)
{
	struct pulse *p = the_pulse();
	unsigned long flags;

	if (!p)
		return 0;
	bpf_local_irq_save(&flags);
	hold(p);
	bpf_local_irq_restore(&flags);
	return 0;
}

/* Inside hrtimer_start(), which has interrupts off: for kernels without bpf_local_irq_save. */
SEC("tp_btf/hrtimer_start")
int BPF_PROG(hold_at_timer, struct hrtimer *timer)
{
	struct pulse *p = the_pulse();

	if (!p || !p->expires_ns || (__u64)timer->node.expires != p->expires_ns)
		return 0;
	p->expires_ns = 0;
	hold(p);
	return 0;
}

/* Inside NET_RX, independent of the order of programs on softirq_entry. */
SEC("tp_btf/netif_receive_skb")
int hold_softirq(void *ctx)
{
	struct pulse *p = the_pulse();

	if (!p || p->armed != bpf_get_smp_processor_id() + 1)
		return 0;
	p->armed = 0;
	hold(p);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
