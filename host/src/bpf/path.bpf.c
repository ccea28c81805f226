// SPDX-License-Identifier: MIT OR Apache-2.0
// The programs of the path analysis: state changes (path.h) of each event.
#include "path.h"

SEC("raw_tp/irq_disable")
int BPF_PROG(on_irq_disable, unsigned long ip, unsigned long by)
{
	struct path_block *b = this_path();
	__u64 now, nmi_ns;

	if (!b || is_telling(ip) || b->flags & IRQ_OFF)
		return 0;
	b->flags &= ~IN_INTERRUPT;
	now = now_and_nmi(b, &nmi_ns);
	b->irq_off = (struct begun){ now - b->irq_ns - nmi_ns, ip, by };
	b->irq_off_at = now;
	b->irq_off_nmi_ns = nmi_ns;
	b->flags |= IRQ_OFF;
	if (ip >= scheduler[0] && ip < scheduler[1])
		scheduler_runs(b, ctx, now, ip);
	else if (!(b->flags & (TO_SCHEDULE | WAITS)))
		begins(b, POID, b->irq_off);
	return 0;
}

SEC("raw_tp/irq_enable")
int BPF_PROG(on_irq_enable, unsigned long ip)
{
	struct path_block *b = this_path();
	__u64 now, at, nmi_ns, ns;
	bool was_interrupt;

	if (!b)
		return 0;
	if (!(b->flags & IRQ_OFF)) {
		/* After an NMI, the kernel does not report the next disable. */
		if (b->flags & KNOWN && !is_telling(ip) && !current_is_idle())
			b->unmatched++;
		return 0;
	}
	was_interrupt = b->flags & IN_INTERRUPT;
	if (was_interrupt) {
		now = now_and_nmi(b, &nmi_ns);
		ns = now - b->irq_off_at - (nmi_ns - b->irq_off_nmi_ns);
		if ((__s64)ns < 0) /* the kernel measures NMIs with another clock */
			ns = 0;
		if (b->flags & KNOWN)
			add_execution(b->executions, EXECUTIONS, &b->heads[0], b->irq_off_at, b->source, ns);
		b->irq_ns += ns;
	}
	b->flags &= ~(IRQ_OFF | IN_INTERRUPT);
	at = thread_time(b, &now);
	if (b->flags & TO_SCHEDULE) {
		/* Idle never enables preemption: its scheduler run ends when interrupts are enabled. */
		if (!current_is_idle())
			return 0;
		scheduler_returns(b, ctx, at, now, ip);
		begins(b, POID, (struct begun){ at, ip, 0 });
	} else if (b->flags & WAITS) {
		/* Without need_resched, idle continues to wait. */
		if (was_interrupt && need_resched())
			begins(b, POID, (struct begun){ at, 0, 0 });
	} else if (!(b->flags & PREEMPT_OFF)) {
		ends(b, ctx, POID, at, now, ip);
		all_on(b, at, ip);
	}
	return 0;
}

SEC("raw_tp/preempt_disable")
int BPF_PROG(on_preempt_disable, unsigned long ip, unsigned long by)
{
	struct path_block *b = this_path();
	__u64 now;

	if (!b || b->flags & PREEMPT_OFF)
		return 0;
	b->preempt_off = (struct begun){ thread_time(b, &now), ip, by };
	if (!(b->flags & IRQ_OFF)) /* else it may be the preempt count of an interrupt */
		ends(b, ctx, PAIE, b->preempt_off.at, now, ip);
	b->flags |= PREEMPT_OFF;
	if (!(b->flags & WAITS))
		begins(b, POID, b->preempt_off);
	return 0;
}

SEC("raw_tp/preempt_enable")
int BPF_PROG(on_preempt_enable, unsigned long ip)
{
	struct path_block *b = this_path();
	__u64 now, at;

	if (!b || !(b->flags & PREEMPT_OFF))
		return 0;
	at = thread_time(b, &now);
	if (b->flags & TO_SCHEDULE) {
		scheduler_returns(b, ctx, at, now, ip);
		if (b->flags & IRQ_OFF)
			begins(b, POID, b->irq_off);
	} else if (!(b->flags & (IRQ_OFF | WAITS)))
		ends(b, ctx, POID, at, now, ip);
	/* Last: taking a stack may itself toggle preemption, which would not be reported to this program recursively. */
	b->flags &= ~PREEMPT_OFF;
	barrier();
	if (!(b->flags & (IRQ_OFF | WAITS))) {
		/* An interrupt after ends() above found preemption still disabled, and started a POID that it did not end. */
		b->open[POID].at = 0;
		all_on(b, at, ip);
	}
	return 0;
}

SEC("raw_tp/irq_handler_entry")
int BPF_PROG(on_irq_handler, __s32 irq)
{
	return interrupt(LINE + ((__u32)irq < 0xffff - LINE ? (__u32)irq : 0xffff - LINE));
}

#define VECTOR(tracepoint, number)           \
	SEC("raw_tp/" #tracepoint "_entry")  \
	int BPF_PROG(on_##tracepoint) { return interrupt(number); }

EACH_VECTOR(VECTOR)

SEC("raw_tp/ipi_entry")
int BPF_PROG(on_ipi, const char *reason) { return interrupt(ipi_vector(reason)); }

/* Fires at the end of an NMI handler; no event marks the start. */
SEC("raw_tp/nmi_handler")
int BPF_PROG(on_nmi, void *handler, __s64 delta_ns)
{
	struct path_block *b = this_path();

	if (!b || delta_ns < 0)
		return 0;
	b->nmi_ns += delta_ns;
	if (b->flags & KNOWN)
		add_execution(b->nmis, NMIS, &b->heads[1], clock() - delta_ns, 0, delta_ns);
	return 0;
}

/* State -1: end of the wait. */
SEC("raw_tp/cpu_idle")
int BPF_PROG(on_idle, __u32 state)
{
	struct path_block *b = this_path();
	__u64 now, at;

	if (!b)
		return 0;
	at = thread_time(b, &now);
	if (state == (__u32)-1) {
		b->flags &= ~WAITS;
		begins(b, POID, (struct begun){ at, 0, 0 });
		b->preempt_off = (struct begun){ at, 0, 0 }; /* for a thread that runs the idle loop (play_idle) */
		return 0;
	}
	ends(b, ctx, POID, at, now, 0);
	b->open[PAIE].at = 0;
	/* Some cpuidle drivers enable interrupts without an event: the wait is not part of the interrupt that ends it. */
	b->flags &= ~(IRQ_OFF | IN_INTERRUPT);
	b->flags |= WAITS;
	return 0;
}

SEC("raw_tp/cpuhp_enter")
int BPF_PROG(on_hotplug, __u32 cpu, __s32 target, __s32 state)
{
	struct path_block *b = bpf_map_lookup_elem(&paths, &cpu);

	if (!b || !is_brought_up(state))
		return 0;
	b->flags = 0;
	for (int term = 0; term < TERMS; term++)
		b->open[term].at = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
