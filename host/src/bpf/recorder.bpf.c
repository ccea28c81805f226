// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel recorder: one program, so one call, per tracepoint, for latencies (wakeup.h), interference (interference.h) and
// the flight ring (flight.h). This file only attaches, and what this kernel lacks is not loaded (host/src/recorder/plan.rs).
#include "kernel.h"
#include "hist.h"
#include "block.h"
#include "flight.h"
#include "wakings.h"
#include "site.h"
#include "held.h"
#include "run.h"
#include "due.h"
#include "wakeup.h"
#include "over.h"
#include "start.h"
#include "interference.h"
#include "calls.h"
#include "follow.h"
#include "senders.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, __u32 state)
{
	struct cpu_block *b = any_block();
	bool renamed;
	__u64 at;

	if (!b)
		return 0;
	if (!is_on(b))
		return switched_elsewhere(b, prev, next, preempt ? 0 : state);
	if (b->running && b->running != prev->pid + 1)
		wakeup_unseen(b, prev);
	if (ordinary_left_out() && prev->prio >= MAX_RT_PRIO && next->prio >= MAX_RT_PRIO && !b->run_tid &&
	    !waits_demoted(next)) {
		flight_skip(b, next);
		return 0;
	}
	windows_end(b);
	at = bpf_ktime_get_ns();
	state = state_left(prev, state);
	renamed = flight_renamed(b, prev);
	flight_switch(b, at, preempt, prev, next, state);
	if (renamed)
		flight_name(b, at, prev);
	flight_freeze_if_asked(b, at, true);
	if (options & OPT_SWITCH)
		b->switch_at = 0; /* a new task leaves the scheduler elsewhere */
	wakeup_switched_out(b, at, prev, preempt ? 0 : state);
	if (wakeup_switched_in(b, at, prev, next)) {
		flight_name(b, at, prev);
		flight_stack(b, ctx, at, STACK_LATE_SWITCH, prev->pid);
		__sync_fetch_and_or(&b->request, TRIGGER_KERNEL);
	}
	b->switched_at = at;
	return 0;
}

static __always_inline int wakes(struct task_struct *p, enum kind kind)
{
	struct task_struct *waker;
	struct cpu_block *b;
	bool measured, kept;
	__u64 at;

	if (ordinary_left_out() && p->prio >= MAX_RT_PRIO)
		return 0;
	b = any_block();
	if (!b)
		return 0;
	measured = is_measured(p);
	kept = is_on(b) && (measured || !(options & OPT_LEAN));
	if (measured && is_over())
		return woken_after_the_end(p);
	if (!measured && !kept)
		return 0;
	at = bpf_ktime_get_ns();
	waker = bpf_get_current_task_btf();
	if (kept)
		flight_waking(b, at, kind, waker, p);
	if (measured)
		wakeup_waking(b, at, waker, p);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p) { return wakes(p, K_WAKING); }
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p) { return wakes(p, K_WAKING_NEW); }

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p) { return thread_ends(any_block(), p); }
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child) { return follow_fork(parent, child); }
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *p, const char *comm)
{
	flight_rename(this_block(), p, comm);
	return follow_name(p, comm);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p, __s32 old_tid) { return follow_exec(any_block(), p, old_tid); }

SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_scheduler_exit, bool is_switch)
{
	struct cpu_block *b = this_block();
	if (b && b->switch_at && is_switch)
		switch_ends(b, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(on_timer_start, struct hrtimer *timer, __u32 mode) { return timer_armed(timer, mode); }

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_timer_entry, struct hrtimer *timer)
{
	struct cpu_block *b = any_block();

	if (b)
		timer_begins(b, bpf_ktime_get_ns(), timer);
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_timer_exit, struct hrtimer *timer)
{
	struct cpu_block *b = any_block();

	if (b)
		timer_ends(b, ctx, bpf_ktime_get_ns(), timer);
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry, __s32 irq) { return irq_begins(irq); }
SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit, __s32 irq) { return irq_ends(irq); }

#define VECTOR(tracepoint, number)                                                     \
	SEC("tp_btf/" #tracepoint "_entry")                                            \
	int BPF_PROG(on_##tracepoint##_entry) { return vector_begins(number); }        \
	SEC("tp_btf/" #tracepoint "_exit")                                             \
	int BPF_PROG(on_##tracepoint##_exit) { return vector_ends(number); }

EACH_VECTOR(VECTOR)

SEC("tp_btf/ipi_entry")
int BPF_PROG(on_ipi_entry, const char *reason) { return vector_begins(ipi_vector(reason)); }
SEC("tp_btf/ipi_exit")
int BPF_PROG(on_ipi_exit, const char *reason) { return vector_ends(ipi_vector(reason)); }

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, __u32 vec) { return softirq_begins(vec); }
SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, __u32 vec) { return softirq_ends(vec); }

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, __s64 delta_ns)
{
	struct cpu_block *b = this_block();

	if (!b || delta_ns < 0)
		return 0;
	charge(&b->nmi, delta_ns);
	b->nmi_ns += delta_ns;
	flight_nmi(b, bpf_ktime_get_ns(), delta_ns, (__u64)handler);
	return 0;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_idle, __u32 state)
{
	struct cpu_block *b = this_block();

	if (b) /* up to Linux 6.2 the exit event comes with interrupts on */
		flight_word(b, bpf_ktime_get_ns(), K_IDLE, state == ~0u ? IRQS_ON : IRQS_OFF, state);
	return 0;
}

/* raw_tp: in a typed program the verifier forbids reading a function pointer. */
SEC("raw_tp/csd_function_entry")
int BPF_PROG(on_csd_entry, __u64 function, __u64 csd)
{
	struct cpu_block *b = this_block();

	if (b)
		flight_wide(b, bpf_ktime_get_ns(), K_CSD_ENTRY, IRQS_OFF, csd, function);
	return 0;
}

SEC("raw_tp/csd_function_exit")
int BPF_PROG(on_csd_exit, __u64 function, __u64 csd)
{
	struct cpu_block *b = this_block();

	if (b)
		flight_wide(b, bpf_ktime_get_ns(), K_CSD_EXIT, IRQS_OFF, csd, function);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_page_fault, unsigned long address, struct pt_regs *registers, unsigned long error_code)
{
	struct cpu_block *b = this_block();

	if (!b || (ordinary_left_out() && !b->run_tid))
		return 0;
	b->fault_address = address;
#if !defined(__TARGET_ARCH_arm64)
	b->fault_ip = ((struct pt_regs___syscall *)registers)->ip;
#endif
	/* Bit 0: a page that is there, bit 1: a write (arch/x86/include/asm/trap_pf.h). */
	if (error_code & 2)
		__sync_fetch_and_add(error_code & 1 ? &b->copies : &b->first_writes, 1);
	__sync_fetch_and_add(&b->faults, 1);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, __s32 to)
{
	struct cpu_block *b = this_block();

	if (b)
		flight_migrate(b, bpf_ktime_get_ns(), p, to);
	return 0;
}

SEC("tp_btf/sched_pi_setprio")
int BPF_PROG(on_setprio, struct task_struct *p, struct task_struct *donor)
{
	struct cpu_block *b = any_block();

	if (!b || is_over())
		return 0;
	wakeup_boosted(p);
	if (is_on(b))
		flight_setprio(b, bpf_ktime_get_ns(), p, donor);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *registers, long id) { return call_begins(registers, id); }
SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *registers, long result) { return call_ends(call_of(registers), result); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
