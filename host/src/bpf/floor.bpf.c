// SPDX-License-Identifier: MIT OR Apache-2.0
// The lower bound of the cost of any wake-up recorder: one program per timer, waking and switch that reads the clock and
// does nothing else. It records nothing.
#include "kernel.h"

__u64 timer_at, waking_at, switch_at; /* keeps the compiler from removing the calls */

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(floor_timer, struct hrtimer *timer)
{
	timer_at = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(floor_waking, struct task_struct *p)
{
	waking_at = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(floor_switch, bool preempt)
{
	switch_at = bpf_ktime_get_ns();
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
