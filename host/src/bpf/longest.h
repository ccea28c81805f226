/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* The longest section of one kind, with the task and the code at its end, and events to ignore. host/src/recorder/longest.rs has
 * the same layout. */

#define STACK_DEPTH 30

struct longest {
	__u64 ns;
	__u64 at;     /* when it ended */
	__u64 begun;  /* kernel address where it began */
	__u64 begun_by; /* caller of that; 0 if unknown: without frame pointers */
	__u64 ended;
	__s32 tid;
	__s32 prio;
	char comm[16];
	__u64 depth;
	__u64 stack[STACK_DEPTH]; /* where it ended */
};
_Static_assert(sizeof(struct longest) == 312, "as in host/src/recorder/longest.rs");

/* Stores in `l` a section of `ns` that the current task ended at the address `to`. */
static __always_inline void is_longest(struct longest *l, void *ctx, __u64 ns, __u64 at, __u64 from, __u64 by, __u64 to)
{
	struct task_struct *current = bpf_get_current_task_btf();
	long bytes;

	l->ns = ns;
	l->at = at;
	l->begun = from;
	l->begun_by = by;
	l->ended = to;
	l->tid = current->pid;
	l->prio = current->prio;
	*(__u64 *)&l->comm[0] = *(__u64 *)&current->comm[0];
	*(__u64 *)&l->comm[8] = *(__u64 *)&current->comm[8];
	bytes = bpf_get_stack(ctx, l->stack, sizeof(l->stack), 0);
	l->depth = bytes > 0 ? (__u64)bytes / 8 : 0;
}

/* Where the kernel turns interrupts off to report an event: first address and the one after the last. Zeroes: none. */
const volatile __u64 telling[2][2] SEC(".rodata.telling") = {};

static __always_inline bool is_telling(__u64 ip)
{
	return (ip >= telling[0][0] && ip < telling[0][1]) || (ip >= telling[1][0] && ip < telling[1][1]);
}

/* A CPU is brought up (kernel/cpu.c; the value differs between kernels). */
enum cpuhp_state { CPUHP_BRINGUP_CPU };

/* Runs on another CPU while the one concerned is still down. */
static __always_inline bool is_brought_up(__s32 state)
{
	return bpf_core_enum_value_exists(enum cpuhp_state, CPUHP_BRINGUP_CPU) &&
	       state == (__s32)bpf_core_enum_value(enum cpuhp_state, CPUHP_BRINGUP_CPU);
}
