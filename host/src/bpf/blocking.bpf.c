// SPDX-License-Identifier: MIT OR Apache-2.0
// Estimates blocking on kernels that do not report when preemption is off: from the moment that a CPU is asked to reschedule
// (sched_set_need_resched_tp) to its next scheduler entry (sched_entry_tp). It sees blocking only if a task was waiting;
// preemption that was off while no task waited is not in it, so it is not a bound. It is a separate object, so that recorders
// without it pay nothing.
#include "kernel.h"
#include "hist.h"

struct blocking_block {
	__u64 asked_at; /* 0: no request pending; written by any CPU */
	__u64 seq;	/* odd while `hist` is written */
	struct hist hist;
	__u64 entered_at; /* last scheduler entry on this CPU */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of possible CPUs before loading */
	__type(key, __u32);
	__type(value, struct blocking_block);
} blocking SEC(".maps");

SEC("tp_btf/sched_set_need_resched_tp")
int BPF_PROG(on_need_resched, struct task_struct *p, __s32 cpu)
{
	__u32 key = cpu;
	struct blocking_block *b = bpf_map_lookup_elem(&blocking, &key);

	if (b && !b->asked_at)
		b->asked_at = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_entry_tp")
int BPF_PROG(on_scheduler_entry)
{
	__u32 key = bpf_get_smp_processor_id();
	struct blocking_block *b = bpf_map_lookup_elem(&blocking, &key);
	__u64 asked, at;

	if (!b)
		return 0;
	at = bpf_ktime_get_ns();
	b->entered_at = at;
	if (!b->asked_at)
		return 0;
	asked = __sync_lock_test_and_set(&b->asked_at, 0);
	if (!asked)
		return 0;
	/* Another CPU asked after this entry, which serves it: nothing was blocked. */
	if (asked > at)
		asked = at;
	__sync_fetch_and_add(&b->seq, 1);
	hist_add(&b->hist, at, at - asked);
	__sync_fetch_and_add(&b->seq, 1);
	return 0;
}

/* Another CPU may request a reschedule between the entry and the moment when the scheduler clears the request (it takes the
 * run queue's lock in between). This run of the scheduler serves that request; if it were kept, the next entry, perhaps
 * seconds later, would report blocking that never happened. A request after the clearing is dropped too: the scheduler then
 * runs again at once, so only a short sample is missing. */
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_scheduler_exit)
{
	__u32 key = bpf_get_smp_processor_id();
	struct blocking_block *b = bpf_map_lookup_elem(&blocking, &key);

	if (b && b->asked_at >= b->entered_at)
		b->asked_at = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
