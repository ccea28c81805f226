/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Measured threads by tid: a thread is in the slot of its low bits or in one of the next three. A lookup in a kernel
 * hash map costs ten times as much; task storage allocates, which PREEMPT_RT forbids here. */

#define WAKING_SLOTS 8192
#define WAKING_PROBES 4

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, WAKING_SLOTS);
	__type(key, __u32);
	__type(value, struct waking);
} wakings SEC(".maps");

static __always_inline struct waking *find_waking(__s32 tid)
{
	struct waking *w;
	__u32 i, slot;

	if (!tid)
		return 0; /* the idle task: a free slot */
#pragma unroll
	for (i = 0; i < WAKING_PROBES; i++) {
		slot = (tid + i) & (WAKING_SLOTS - 1);
		w = bpf_map_lookup_elem(&wakings, &slot);
		if (w && w->tid == tid)
			return w;
	}
	return 0;
}

static __always_inline void forget(struct waking *w)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < MORE_TIMERS; i++)
		w->more_timers[i] = 0;
	w->at = 0;
	w->preempted = 0;
	w->via = 0;
	w->job_ended = 0;
	w->armed = 0;
	w->armed_timer = 0;
	w->sleep = 0;
	w->jobs = 0;
}

/* Leaves nothing behind for a thread that user space puts there. */
static __always_inline void give_back(struct waking *w)
{
	forget(w);
	__sync_lock_test_and_set(&w->tid, 0); /* after all stores above */
}

/* Wakings of one thread are serialized, so it is claimed once. */
static __always_inline struct waking *claim_waking(struct cpu_block *b, __s32 tid)
{
	struct waking *w;
	__u32 i, slot;

#pragma unroll
	for (i = 0; i < WAKING_PROBES; i++) {
		slot = (tid + i) & (WAKING_SLOTS - 1);
		w = bpf_map_lookup_elem(&wakings, &slot);
		if (w && !w->tid && !__sync_val_compare_and_swap(&w->tid, 0, tid)) {
			forget(w);
			return w;
		}
	}
	lose(b, LOST_PENDING_FULL);
	return 0;
}

/* Threads that were woken as real-time ones and wait, or that were preempted in an activation, by the low bits of their ids. A
 * thread that loses its priority while it waits is an ordinary one when it gets the CPU: it was late all the same, or goes on
 * with its activation, which ends when it blocks. */
__u8 waiting_real_time[WAKING_SLOTS];

static __always_inline void waits_as_real_time(struct task_struct *p, __u8 is)
{
	if (!(options & (OPT_ORDINARY | OPT_CHOSEN_ONLY)))
		waiting_real_time[p->pid & (WAKING_SLOTS - 1)] = is;
}

/* Whether the ordinary thread `p` waits since it was woken as a real-time one, or was preempted in an activation. */
static __always_inline bool waits_demoted(struct task_struct *p)
{
	struct waking *w;

	if (p->prio < MAX_RT_PRIO || options & (OPT_ORDINARY | OPT_CHOSEN_ONLY) ||
	    !waiting_real_time[p->pid & (WAKING_SLOTS - 1)])
		return false;
	w = find_waking(p->pid);
	return w && (w->at || w->preempted == PREEMPTED);
}
