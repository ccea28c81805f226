/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* The flight ring: the latest events of this CPU, overwritten until a freeze is requested.
 *
 * A freeze is requested by setting bits in `request`: by this program when a real-time task was switched in too late, or
 * by a measuring thread on this CPU with one atomic store into the mapped block. The freeze itself happens here, at the
 * next switch or FREEZE_AFTER events later, so that the record includes the victim's return to user space; the next free
 * buffer takes over. User space copies a frozen buffer and frees it. Only code with interrupts off rotates, so a CPU has
 * one rotator at a time. */

enum kind {
	K_SWITCH = 1, K_WAKING, K_WAKING_NEW, K_MIGRATE, K_SETPRIO,
	K_IRQ_ENTRY, K_IRQ_EXIT, K_VECTOR_ENTRY, K_VECTOR_EXIT, K_SOFTIRQ_ENTRY, K_SOFTIRQ_EXIT, K_NMI,
	K_TIMER_ENTRY, K_TIMER_EXIT, K_IDLE, K_CSD_ENTRY, K_CSD_EXIT, K_FAULTS,
	K_COMM, K_STEAL,
	K_RENAME = 23, /* after those of calls.h */
	K_CSD_QUEUE, K_SIGNAL, K_HANDLER, K_IN_CALL,
};

#define FREEZE_AFTER 16
/* Bit of `flag` of a switch beside `preempt`: switches between ordinary tasks were left out before it. */
#define SWITCHES_SKIPPED 2

/* Whether an interrupt can arrive between two instructions of the program: known for each tracepoint. An NMI always can;
 * its program does not write to the ring (flight_nmi). */
enum irqs { IRQS_OFF, IRQS_ON };

/* Takes the next slot; the caller fills it and calls flight_close(). Nested interrupts take other slots. A locked
 * instruction waits for all earlier stores, and those into the ring miss the cache: a sixth of the cost of a waking. */
static __always_inline struct flight_rec *flight_open(struct cpu_block *b, __u64 at, __u32 kind, enum irqs irqs,
						      __u32 *stamp)
{
	struct flight_buffer *f = &b->buffer[b->active & (FLIGHT_BUFFERS - 1)];
	struct flight_rec *r;
	__u64 seq;

	if (irqs == IRQS_ON) {
		seq = __sync_fetch_and_add(&f->head, 1);
	} else {
		seq = f->head;
		*(volatile __u64 *)&f->head = seq + 1;
	}
	r = &f->rec[seq & (FLIGHT_SLOTS - 1)];
	*stamp = (__u32)(seq + 1);
	r->at = at;
	r->kind = kind;
	return r;
}

static __always_inline void flight_close(struct flight_rec *r, __u32 stamp)
{
	barrier();
	*(volatile __u32 *)&r->stamp = stamp;
}

/* A record with one number. */
static __always_inline void flight_word(struct cpu_block *b, __u64 at, __u32 kind, enum irqs irqs, __u32 word)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, kind, irqs, &stamp);

	r->current = current_tid();
	r->word = word;
	flight_close(r, stamp);
}

/* A record with two addresses. */
static __always_inline void flight_wide(struct cpu_block *b, __u64 at, __u32 kind, enum irqs irqs, __u64 first,
					__u64 second)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, kind, irqs, &stamp);

	r->current = current_tid();
	r->wide[0] = first;
	r->wide[1] = second;
	flight_close(r, stamp);
}

/* A timer's handler begins. `expires`: with its slack; `soft`: in a softirq. */
static __always_inline void flight_timer(struct cpu_block *b, __u64 at, bool soft, __u64 expires, __u64 slack, __u64 timer,
					 __u64 function)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, K_TIMER_ENTRY, soft ? IRQS_ON : IRQS_OFF, &stamp);

	r->current = current_tid();
	r->flag = soft;
	r->expires = expires;
	r->tid = slack < 0x7fffffff ? slack : 0;
	r->wide[0] = timer;
	r->wide[1] = function;
	flight_close(r, stamp);
}

static __always_inline void flight_comm(struct flight_rec *r, struct task_struct *p)
{
	r->wide[0] = *(__u64 *)&p->comm[0];
	r->wide[1] = *(__u64 *)&p->comm[8];
}

static __always_inline void flight_waking(struct cpu_block *b, __u64 at, __u32 kind, struct task_struct *waker,
					  struct task_struct *p)
{
	/* A task that wakes itself may do so with interrupts on. */
	enum irqs irqs = p->pid == waker->pid ? IRQS_ON : IRQS_OFF;
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, kind, irqs, &stamp);

	r->current = waker->pid;
	r->tid = p->pid;
	r->prio_a = waker->prio; /* it may have changed since its switch-in: a system call that sets it has no event */
	r->prio_b = p->prio;
	r->word = cpu_of(p);
	flight_comm(r, p);
	flight_close(r, stamp);
}

/* Stores the kinds of `count` faults and resets their counters; decoded in core/src/trace/flight.rs. */
static __always_inline void kinds_of_faults(struct cpu_block *b, struct flight_rec *r, __u64 count)
{
	__u64 copies = b->copies, writes = b->first_writes;

	r->tid = copies;
	r->word = count > copies + writes ? count - copies - writes : 0;
	r->wide[1] = (__u32)count | writes << 32;
	b->copies = 0;
	b->first_writes = 0;
}

static __always_inline void flight_faults(struct cpu_block *b, __u64 at, __s32 tid)
{
	__u64 count = b->faults;
	struct flight_rec *r;
	__u32 stamp;

	b->left_faults = count;
	if (!count)
		return;
	b->faults = 0;
	r = flight_open(b, at, K_FAULTS, IRQS_OFF, &stamp);
	r->current = tid;
	r->wide[0] = b->fault_address;
	kinds_of_faults(b, r, count);
	flight_close(r, stamp);
}

/* A switch between ordinary tasks, left out: only the running task is stored, the clock is not read. */
static __always_inline void flight_skip(struct cpu_block *b, struct task_struct *next)
{
	b->running = next->pid + 1;
	b->skipped = 1;
	b->switched_at = 0;
	b->faults = 0;
	b->copies = 0;
	b->first_writes = 0;
	if (options & OPT_SWITCH)
		b->switch_at = 0;
}

/* Name of a task that leaves the CPU: its switch-in may have been left out, or it was renamed since. */
static __always_inline void flight_name(struct cpu_block *b, __u64 at, struct task_struct *p)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, K_COMM, IRQS_OFF, &stamp);

	r->tid = p->pid;
	flight_comm(r, p);
	flight_close(r, stamp);
}

/* Whether a real-time task was renamed since its switch-in: by exec, or by itself. */
static __always_inline bool flight_renamed(struct cpu_block *b, struct task_struct *prev)
{
	return prev->prio < MAX_RT_PRIO &&
	       (*(__u64 *)&prev->comm[0] != b->came[0] || *(__u64 *)&prev->comm[8] != b->came[1]);
}

static __always_inline void flight_switch(struct cpu_block *b, __u64 at, bool preempt, struct task_struct *prev,
					  struct task_struct *next, __u32 state)
{
	struct flight_rec *r;
	__u32 stamp;

	b->running = next->pid + 1;
	flight_faults(b, at, prev->pid);
	r = flight_open(b, at, K_SWITCH, IRQS_OFF, &stamp);
	r->flag = preempt | (b->skipped ? SWITCHES_SKIPPED : 0);
	b->skipped = 0;
	r->current = prev->pid;
	r->tid = next->pid;
	r->prio_a = prev->prio;
	r->prio_b = next->prio;
	r->word = state;
	flight_comm(r, next);
	b->came[0] = *(__u64 *)&next->comm[0];
	b->came[1] = *(__u64 *)&next->comm[8];
	flight_close(r, stamp);
}

/* A task gets another name: by itself, or by exec. Its other records have the name it had then. */
static __always_inline void flight_rename(struct cpu_block *b, struct task_struct *p, const char *comm)
{
	__u64 name[2] = {};
	struct flight_rec *r;
	__u32 stamp;

	if (!b)
		return;
	bpf_probe_read_kernel_str(name, sizeof(name), comm);
	r = flight_open(b, bpf_ktime_get_ns(), K_RENAME, IRQS_ON, &stamp);
	r->current = current_tid();
	r->tid = p->pid;
	r->wide[0] = name[0];
	r->wide[1] = name[1];
	flight_close(r, stamp);
}

/* A function is sent to another CPU; the sender may wait for its end. */
static __always_inline void flight_call(struct cpu_block *b, __u64 at, __u32 cpu, __u64 csd, __u64 function)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, K_CSD_QUEUE, IRQS_ON, &stamp);

	r->current = current_tid();
	r->word = cpu;
	r->wide[0] = csd;
	r->wide[1] = function;
	flight_close(r, stamp);
}

/* A signal is sent to `p`. */
static __always_inline void flight_signal(struct cpu_block *b, __u64 at, __s32 signal, struct task_struct *p)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, K_SIGNAL, IRQS_ON, &stamp);

	r->current = current_tid();
	r->tid = p->pid;
	r->prio_b = p->prio;
	r->word = signal;
	flight_comm(r, p);
	flight_close(r, stamp);
}

static __always_inline void flight_migrate(struct cpu_block *b, __u64 at, struct task_struct *p, __s32 to)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, K_MIGRATE, IRQS_OFF, &stamp);

	r->current = current_tid();
	r->tid = p->pid;
	r->prio_b = p->prio;
	r->aux = cpu_of(p);
	r->word = to;
	flight_comm(r, p);
	flight_close(r, stamp);
}

static __always_inline void flight_setprio(struct cpu_block *b, __u64 at, struct task_struct *p,
					   struct task_struct *donor)
{
	__u32 stamp;
	struct flight_rec *r = flight_open(b, at, K_SETPRIO, IRQS_OFF, &stamp);

	r->current = current_tid();
	r->tid = p->pid;
	r->prio_a = p->prio;
	r->prio_b = donor && donor->prio < p->prio ? donor->prio : p->prio;
	flight_comm(r, p);
	flight_close(r, stamp);
}

/* Ends the active buffer and activates the next free one. Interrupts are off. While no buffer is free, the request
 * waits, with its evidence, until user space has read one and requests again, or until the ring wraps; a worse victim
 * replaces it. So of many victims at once the worst, which is switched in last, has evidence. */
static __noinline int flight_rotate(struct cpu_block *b, __u64 at)
{
	__u32 active, next, asked, i;
	struct flight_buffer *f, *g;

	if (!b)
		return 0;
	active = b->active & (FLIGHT_BUFFERS - 1);
	f = &b->buffer[active];
	next = active;
	for (i = 1; i < FLIGHT_BUFFERS; i++)
		if (b->buffer[(active + i) & (FLIGHT_BUFFERS - 1)].state == BUFFER_FREE) {
			next = (active + i) & (FLIGHT_BUFFERS - 1);
			break;
		}
	b->freeze_head = 0;
	asked = __sync_lock_test_and_set(&b->request, 0);
	if (next == active) {
		__sync_fetch_and_or(&b->waiting, asked);
		return 0;
	}
	f->trigger = asked | __sync_lock_test_and_set(&b->waiting, 0);
	f->frozen_at = at;
	f->id = b->serial + 1;
	f->total_ns = b->victim_ns;
	f->switch_at = b->victim_at;
	f->tid = b->victim_tid;
	f->prio = b->victim_prio;
	*(__u64 *)&f->comm[0] = *(__u64 *)&b->victim_comm[0];
	*(__u64 *)&f->comm[8] = *(__u64 *)&b->victim_comm[8];
	b->victim_ns = 0;

	g = &b->buffer[next];
	g->begin_seq = g->head;
	g->begin_at = at;
	g->stacks = 0;
	g->state = BUFFER_ACTIVE;
	b->active = next;
	__sync_fetch_and_add(&b->serial, 1);
	__sync_lock_test_and_set(&f->state, BUFFER_FROZEN); /* full barrier: all of the above is visible first */
	return 0;
}

/* In an NMI, which may have interrupted any of our programs: noted beside the ring until the next program copies it. */
static __always_inline void flight_nmi(struct cpu_block *b, __u64 at, __u64 delta_ns, __u64 handler)
{
	struct nmi_note *note = &b->nmi_note[b->nmi_notes & (NMI_NOTES - 1)];

	if (b->nmi_notes - b->nmi_filed >= NMI_NOTES) {
		lose(b, LOST_NMI);
		return;
	}
	note->at = at;
	note->delta_ns = delta_ns;
	note->handler = handler;
	note->current = current_tid();
	count_up(&b->nmi_notes);
}

/* Copies the noted NMIs into the ring, after younger records, so the reader sorts by time. Interrupts are off. */
static __noinline int flight_file_nmis(struct cpu_block *b)
{
	struct nmi_note *note;
	struct flight_rec *r;
	__u32 i, stamp;

	if (!b)
		return 0;
	for (i = 0; i < NMI_NOTES && b->nmi_filed != *(volatile __u64 *)&b->nmi_notes; i++) {
		note = &b->nmi_note[b->nmi_filed & (NMI_NOTES - 1)];
		r = flight_open(b, note->at, K_NMI, IRQS_OFF, &stamp);
		r->current = note->current;
		r->wide[0] = note->delta_ns;
		r->wide[1] = note->handler;
		flight_close(r, stamp);
		count_up(&b->nmi_filed);
	}
	return 0;
}

/* Called at each recorded switch and at the end of each hard interrupt: interrupts are off. Costs three loads if no freeze is
 * requested. */
static __always_inline void flight_freeze_if_asked(struct cpu_block *b, __u64 at, bool at_switch)
{
	__u64 head;

	if (b->nmi_filed != *(volatile __u64 *)&b->nmi_notes)
		flight_file_nmis(b);
	if (!*(volatile __u32 *)&b->request)
		return;
	head = b->buffer[b->active & (FLIGHT_BUFFERS - 1)].head;
	if (!b->freeze_head)
		b->freeze_head = head;
	if (at_switch || head - b->freeze_head >= FREEZE_AFTER)
		flight_rotate(b, at);
}

/* A kernel stack beside the records; the latest also overwrites the oldest. Interrupts are off. */
static __always_inline void flight_stack(struct cpu_block *b, void *ctx, __u64 at, __u32 why, __s32 tid)
{
	struct flight_buffer *f = &b->buffer[b->active & (FLIGHT_BUFFERS - 1)];
	struct flight_stack *s = &f->stack[f->stacks & (FLIGHT_STACKS - 1)];
	long bytes;

	bytes = bpf_get_stack(ctx, s->ip, sizeof(s->ip), 0);
	if (bytes < 0) {
		lose(b, LOST_STACK);
		return;
	}
	s->at = at;
	s->tid = tid;
	s->why = why;
	s->depth = (__u64)bytes / 8;
	f->stacks++;
}
