// SPDX-License-Identifier: MIT OR Apache-2.0
// The programs of the path analysis: what each event does to the state of path.h.
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
		/* The kernel does not report the first time that interrupts are disabled after an NMI. */
		if (b->flags & KNOWN && !is_telling(ip) && !current_is_idle())
			b->unmatched++;
		return 0;
	}
	was_interrupt = b->flags & IN_INTERRUPT;
	if (was_interrupt) {
		now = now_and_nmi(b, &nmi_ns);
		ns = now - b->irq_off_at - (nmi_ns - b->irq_off_nmi_ns);
		if ((__s64)ns < 0) /* NMIs are measured by another clock */
			ns = 0;
		if (b->flags & KNOWN)
			add_execution(b->executions, EXECUTIONS, &b->heads[0], b->irq_off_at, b->source, ns);
		b->irq_ns += ns;
	}
	b->flags &= ~(IRQ_OFF | IN_INTERRUPT);
	at = thread_time(b, &now);
	if (b->flags & TO_SCHEDULE) {
		/* Idle never enables preemption: its part begins when the scheduler enables interrupts. */
		if (!current_is_idle())
			return 0;
		scheduler_returns(b, ctx, at, now, ip);
		begins(b, POID, (struct begun){ at, ip, 0 });
	} else if (b->flags & WAITS) {
		/* It goes on waiting, or leaves idle. */
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
	if (!(b->flags & IRQ_OFF)) /* else it may be the preempt count of an interrupt, which prolongs nothing */
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
		/* Of an interrupt that came after the end above, and saw preemption still disabled. */
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

VECTOR(local_timer, V_LOCAL_TIMER)
VECTOR(reschedule, V_RESCHEDULE)
VECTOR(call_function, V_CALL_FUNCTION)
VECTOR(call_function_single, V_CALL_FUNCTION_SINGLE)
VECTOR(irq_work, V_IRQ_WORK)
VECTOR(thermal_apic, V_THERMAL_APIC)
VECTOR(deferred_error_apic, V_DEFERRED_ERROR)
VECTOR(threshold_apic, V_THRESHOLD_APIC)
VECTOR(error_apic, V_ERROR_APIC)
VECTOR(spurious_apic, V_SPURIOUS_APIC)
VECTOR(x86_platform_ipi, V_PLATFORM_IPI)

SEC("raw_tp/ipi_entry")
int BPF_PROG(on_ipi, const char *reason) { return interrupt(ipi_vector(reason)); }

/* At the end of one: the kernel does not report its beginning. */
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

/* State -1: idle has waited. */
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
		b->preempt_off = (struct begun){ at, 0, 0 }; /* of a thread that idles for others (play_idle) */
		return 0;
	}
	ends(b, ctx, POID, at, now, 0);
	b->open[PAIE].at = 0;
	/* Some drivers enable interrupts without reporting it: the wait is not part of the interrupt that ends it. */
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
