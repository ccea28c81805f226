/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Threads that join the selection while it is recorded, from their first waking on: children of a measured thread, threads
 * that take a selected name, and programs started in a selected control group. Threads that are moved into such a group
 * are found by user space, later. */

/* Built by host/src/recorder/follow.rs, which restates the layout. */
struct followed {
	__u64 accepts[256]; /* bit i: this byte leads from state i of the patterns to the next one */
	__u64 begin, loops, end; /* state sets: initial, that any byte leads back to, accepting */
	__u64 cgroup; /* id, of version 2 */
	__u32 level;  /* its depth below the root */
	__u32 by;     /* enum followed_by */
};
enum followed_by { BY_FORK_ALONE, BY_NAME, BY_CGROUP };

const volatile struct followed followed SEC(".rodata.followed") = {};

static __always_inline bool is_chosen_name(const char *name)
{
	__u64 states = followed.begin;
	__u32 i;

	for (i = 0; i < 15 && name[i]; i++)
		states = (states & followed.accepts[(__u8)name[i]]) << 1 | (states & followed.loops);
	return states & followed.end;
}

static __always_inline int follow_fork(struct task_struct *parent, struct task_struct *child)
{
	struct cpu_block *b = any_block();

	if (b && !is_over() && find_waking(parent->pid) && !find_waking(child->pid))
		claim_waking(b, child->pid);
	return 0;
}

/* Selected while it runs. It may block before its next switch-in: its work from now on is an activation without a wake-up. */
static __always_inline void chosen_while_it_runs(struct cpu_block *b, struct waking *w, struct task_struct *p)
{
	__u64 now = bpf_ktime_get_ns();

	if (!(options & OPT_ACTIVATIONS) || !is_on(b) || b->run_tid)
		return;
	w->flags = ACT_AWAKE;
	activation_begins(b, now, w, now, p, p, false);
	w->flags = 0;
}

/* Also called on exec. A thread that drops the selected name is deselected; one that another thread renames stays, because
 * it may be in the middle of an activation on another CPU. */
static __always_inline int follow_name(struct task_struct *p, const char *comm)
{
	struct cpu_block *b = any_block();
	bool itself = p->pid == current_tid(), chosen;
	struct waking *w;
	char name[16] = {};

	if (!b || is_over() || followed.by == BY_FORK_ALONE || p->flags & PF_EXITING)
		return 0;
	if (followed.by == BY_NAME) {
		bpf_probe_read_kernel_str(name, sizeof(name), comm);
		chosen = is_chosen_name(name);
	} else {
		chosen = itself && bpf_get_current_ancestor_cgroup_id(followed.level) == followed.cgroup;
	}
	w = find_waking(p->pid);
	if (chosen && !w) {
		w = claim_waking(b, p->pid);
		if (w && itself)
			chosen_while_it_runs(b, w, p);
		else if (w && !sleeps_unmeasured(b, bpf_ktime_get_ns(), w, p))
			begins_at_work(b, p);
	} else if (!chosen && w && itself && followed.by == BY_NAME)
		give_back(w);
	return 0;
}

/* The thread that execs has lost the id under which its activation is open: that one ends, as if it exited. */
static __always_inline void ends_in_exec(struct cpu_block *b, __u64 at, struct task_struct *p, __u16 jobs)
{
	struct activation *a = open_activation(b);

	a->run_ns += at - b->run_since;
	stayed_faults(b, a, at);
	b->run_tid = 0;
	a->out_at = at;
	a->blocks = p->nvcsw + jobs;
	a->flags |= ACT_STAYED;
	a->syscall = SYSCALL_EXITS;
	publish(&a->stamp, b->activations + 1);
	count_up(&b->activations);
}

/* A thread that execs takes the id of its process's first thread, which has ended. Its work from now on is an activation of
 * the new id, without a wake-up. If names select, follow_name() has already handled the new one. */
static __always_inline int follow_exec(struct cpu_block *b, struct task_struct *p, __s32 old_tid)
{
	struct waking *w = old_tid == p->pid ? 0 : find_waking(old_tid), *moved;
	__u16 jobs;

	if (b && b->running == old_tid + 1)
		b->running = p->pid + 1;
	if (!b || is_over() || !w)
		return 0;
	jobs = p->policy == SCHED_DEADLINE ? w->jobs : 0;
	give_back(w);
	if (is_on(b) && b->run_tid == old_tid)
		ends_in_exec(b, bpf_ktime_get_ns(), p, jobs);
	moved = find_waking(p->pid);
	if (!moved && followed.by != BY_NAME)
		moved = claim_waking(b, p->pid);
	if (moved)
		chosen_while_it_runs(b, moved, p);
	return 0;
}
