// SPDX-License-Identifier: MIT OR Apache-2.0
// What no recorder of wake-ups comes below: at each timer, each waking and each switch one program that asks for the time,
// and nothing else. Not in it: anything that is recorded.
#include "kernel.h"

__u64 timer_at, waking_at, switch_at; /* or the calls would be left out */

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
