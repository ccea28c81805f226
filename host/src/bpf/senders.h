/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Functions sent to other CPUs, and signals: what a thread's own time may have been. The end of a handler is a system call and is
 * not recorded. */

SEC("raw_tp/csd_queue_cpu")
int BPF_PROG(on_csd_queue, __u32 cpu, __u64 callsite, __u64 function, __u64 csd)
{
	struct cpu_block *b = this_block();

	if (b)
		flight_call(b, bpf_ktime_get_ns(), cpu, csd, function);
	return 0;
}

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int signal, void *info, struct task_struct *p, int group, int result)
{
	struct cpu_block *b = this_block();

	/* TRACE_SIGNAL_DELIVERED, TRACE_SIGNAL_LOSE_INFO (include/trace/events/signal.h) */
	if (b && (!result || result == 4))
		flight_signal(b, bpf_ktime_get_ns(), signal, p);
	return 0;
}

/* A handler of the program runs now; 0 and 1 are SIG_DFL and SIG_IGN. */
SEC("tp_btf/signal_deliver")
int BPF_PROG(on_handler, int signal, void *info, struct k_sigaction *action)
{
	struct cpu_block *b = this_block();

	if (b && (__u64)action->sa.sa_handler > 1)
		flight_word(b, bpf_ktime_get_ns(), K_HANDLER, IRQS_ON, signal);
	return 0;
}
