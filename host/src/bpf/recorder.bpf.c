// SPDX-License-Identifier: MIT OR Apache-2.0
// The kernel recorder: one program a tracepoint, so that each event costs one call, serving three recorders at once:
// latencies (wakeup.h), interference (interference.h), and the flight ring (flight.h). Here are only the attachments.
// A program whose tracepoint this kernel lacks is not loaded (host/src/recorder/plan.rs decides).
#include "kernel.h"
#include "hist.h"
#include "block.h"
#include "flight.h"
#include "run.h"
#include "wakeup.h"
#include "interference.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next, __u32 state)
{
	struct cpu_block *b = this_block();
	__u64 at;

	if (!b)
		return 0;
	at = bpf_ktime_get_ns();
	flight_switch(b, at, preempt, prev, next, state);
	flight_freeze_if_asked(b, at, true);
	b->switch_at = 0; /* a new task leaves the scheduler elsewhere */
	wakeup_switched_out(b, at, prev, preempt || !state);
	if (wakeup_switched_in(b, at, prev, next)) {
		flight_stack(b, ctx, at, STACK_LATE_SWITCH, prev->pid);
		__sync_fetch_and_or(&b->request, TRIGGER_KERNEL);
	}
	return 0;
}

static __always_inline int wakes(struct cpu_block *b, struct task_struct *p, enum kind kind)
{
	bool measured = is_measured(b, p);
	bool kept = b->on && (measured || !(b->options & OPT_LEAN));
	__u64 at;

	if (!measured && !kept)
		return 0;
	at = bpf_ktime_get_ns();
	if (kept)
		flight_waking(b, at, kind, p);
	if (measured)
		wakeup_waking(b, at, p);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	struct cpu_block *b = any_block();

	return b ? wakes(b, p, K_WAKING) : 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	struct cpu_block *b = any_block();

	return b ? wakes(b, p, K_WAKING_NEW) : 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *p)
{
	__s32 tid = p->pid;

	bpf_map_delete_elem(&wakings, &tid);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct cpu_block *b = any_block();
	__s32 tid = parent->pid;

	if (!b || !(b->options & OPT_FOLLOW) || !bpf_map_lookup_elem(&wakings, &tid))
		return 0;
	tid = child->pid;
	if (bpf_map_update_elem(&wakings, &tid, &no_waking, BPF_ANY))
		lose(b, LOST_PENDING_FULL);
	return 0;
}

/* Ends what sched_switch began: the switch itself. */
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_scheduler_exit, bool is_switch)
{
	struct cpu_block *b = this_block();
	__u64 at;

	if (!b || !b->switch_at || !is_switch)
		return 0;
	at = bpf_ktime_get_ns();
	__sync_fetch_and_add(&b->hist_seq, 1);
	hist_add(&b->hist[Q_SWITCH], at, at - b->switch_at);
	__sync_fetch_and_add(&b->hist_seq, 1);
	b->switch_at = 0;
	return 0;
}

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

SEC("tp_btf/ipi_entry")
int BPF_PROG(on_ipi_entry, const char *reason) { return vector_begins(ipi_vector(reason)); }
SEC("tp_btf/ipi_exit")
int BPF_PROG(on_ipi_exit, const char *reason) { return vector_ends(ipi_vector(reason)); }

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, __u32 vec)
{
	struct cpu_block *b = this_block();

	if (b)
		softirq_begins(b, bpf_ktime_get_ns(), vec);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, __u32 vec)
{
	struct cpu_block *b = this_block();

	if (b)
		softirq_ends(b, bpf_ktime_get_ns(), vec);
	return 0;
}

SEC("tp_btf/nmi_handler")
int BPF_PROG(on_nmi, void *handler, __s64 delta_ns)
{
	struct cpu_block *b = this_block();

	if (!b || delta_ns < 0)
		return 0;
	charge(b, &b->nmi, delta_ns);
	flight_wide(b, bpf_ktime_get_ns(), K_NMI, delta_ns, (__u64)handler);
	return 0;
}

SEC("tp_btf/cpu_idle")
int BPF_PROG(on_idle, __u32 state)
{
	struct cpu_block *b = this_block();

	if (b)
		flight_word(b, bpf_ktime_get_ns(), K_IDLE, state);
	return 0;
}

/* raw_tp: with types, the verifier lets no program read a pointer to a function. */
SEC("raw_tp/csd_function_entry")
int BPF_PROG(on_csd_entry, __u64 function, __u64 csd)
{
	struct cpu_block *b = this_block();

	if (b)
		flight_wide(b, bpf_ktime_get_ns(), K_CSD_ENTRY, csd, function);
	return 0;
}

SEC("raw_tp/csd_function_exit")
int BPF_PROG(on_csd_exit, __u64 function, __u64 csd)
{
	struct cpu_block *b = this_block();

	if (b)
		flight_wide(b, bpf_ktime_get_ns(), K_CSD_EXIT, csd, function);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(on_page_fault, unsigned long address)
{
	struct cpu_block *b = this_block();

	if (!b)
		return 0;
	b->fault_address = address;
	__sync_fetch_and_add(&b->faults, 1);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, __s32 to)
{
	struct cpu_block *b = this_block();
	struct flight_rec *r;
	__u32 stamp;

	if (!b)
		return 0;
	r = flight_open(b, bpf_ktime_get_ns(), K_MIGRATE, &stamp);
	r->current = (__s32)bpf_get_current_pid_tgid();
	r->tid = p->pid;
	r->prio_b = p->prio;
	r->aux = flight_target(p);
	r->word = to;
	flight_comm(r, p);
	flight_close(r, stamp);
	return 0;
}

SEC("tp_btf/sched_pi_setprio")
int BPF_PROG(on_setprio, struct task_struct *p, struct task_struct *donor)
{
	struct cpu_block *b = this_block();
	struct flight_rec *r;
	__u32 stamp;

	if (!b)
		return 0;
	r = flight_open(b, bpf_ktime_get_ns(), K_SETPRIO, &stamp);
	r->current = (__s32)bpf_get_current_pid_tgid();
	r->tid = p->pid;
	r->prio_a = p->prio;
	r->prio_b = donor && donor->prio < p->prio ? donor->prio : p->prio;
	flight_comm(r, p);
	flight_close(r, stamp);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
