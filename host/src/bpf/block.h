/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* All that the recorder keeps for one CPU, in one element of an array map that user space maps: one lookup per
 * program, and no system call to read. host/src/recorder/block.rs restates this layout; both sides assert the
 * offsets. */

#include "activation.h"

#define FLIGHT_SLOTS 4096
#define FLIGHT_BUFFERS 8
#define FLIGHT_STACKS 16
#define STACK_DEPTH 30
#define IRQ_SLOTS 1024
#define VECTOR_SLOTS 16
#define SOFTIRQ_SLOTS 16
#define SEEN_SLOTS 128 /* real-time priorities, rounded up */
#define NMI_NOTES 8
#define SITE_WORDS 64

/* One event of the flight ring; core/src/trace/flight.rs decodes it and documents the fields of each kind. */
struct flight_rec {
	__u64 at;    /* CLOCK_MONOTONIC */
	__u32 stamp; /* low half of (sequence number + 1), written last: any other value is a torn record */
	__u8 kind;
	__u8 flag;
	__u16 aux;
	__s32 current;
	__s32 tid;
	union {
		struct {
			__s16 prio_a, prio_b;
			__u32 word;
		};
		__u64 expires;
	};
	union {
		char comm[16];
		__u64 wide[2];
	};
};
_Static_assert(sizeof(struct flight_rec) == 48, "wire record has no padding");

struct flight_stack {
	__u64 at;
	__s32 tid;
	__u8 why;     /* enum stack_why */
	__u8 pad;
	__u16 depth;
	__u64 ip[STACK_DEPTH];
};
_Static_assert(sizeof(struct flight_stack) == 256, "wire stack has no padding");

enum stack_why { STACK_TIMER_LATE = 1, STACK_LATE_SWITCH = 2 };
enum buffer_state { BUFFER_FREE, BUFFER_ACTIVE, BUFFER_FROZEN };
enum trigger { TRIGGER_KERNEL = 1, TRIGGER_USER = 2 };

struct flight_buffer {
	__u64 head;	 /* sequence number of the next record; never reset, so that old stamps cannot match */
	__u64 begin_seq; /* `head` when the buffer became active */
	__u64 begin_at;	 /* when the buffer became active */
	__u64 frozen_at;
	__u64 id;	 /* number of the freeze that ended it; buffers with consecutive ids join without a gap */
	__u64 stacks;	 /* stacks taken since it became active; the slot is this modulo FLIGHT_STACKS */
	__u64 total_ns;	 /* victim of TRIGGER_KERNEL: from expiry (or waking) to switched in */
	__u64 switch_at; /* when the victim was switched in */
	__s32 tid;
	__s32 prio;
	char comm[16];
	__u32 state;   /* enum buffer_state */
	__u32 trigger; /* enum trigger, or-ed */
	__u64 pad[4];
	struct flight_stack stack[FLIGHT_STACKS];
	struct flight_rec rec[FLIGHT_SLOTS];
};

/* Net time taken by one source of interference. */
struct source {
	__u64 count;
	__u64 total_ns;
	__u64 max_ns;
};

/* An NMI that is not in the flight ring yet. */
struct nmi_note {
	__u64 at;
	__u64 delta_ns;
	__u64 handler;
	__s32 current;
	__s32 pad;
};

/* An interrupt that has started and not ended, of one nesting level. */
struct open_window {
	__u64 start;
	__u64 stolen; /* stolen_so_far() at its start */
	__u32 id;
	__u32 open;
};

/* Whose a timer is. */
enum timer_of { OF_OTHER, OF_TIMERFD, OF_CALL, OF_WHEEL, OF_TIMEOUT /* of a call, on the wheel */ };

/* A timer callback that is running. */
struct open_timer {
	__u64 timer; /* 0: none */
	__u64 expires;
	__u64 entry;
	__s32 tid;  /* the task in whose context it runs */
	__u8 late; /* it woke a measured task later than late_timer_ns */
	__u8 early; /* it ran before `expires`, together with another timer: it has slack */
	__u8 armed_late; /* was due before it was armed */
	__u8 of; /* enum timer_of */
};

enum level { LEVEL_IRQ, LEVEL_VECTOR, LEVEL_SOFTIRQ, LEVELS };
enum quantity { Q_TIMER, Q_WAKEUP, Q_BOTH, Q_SHARED, Q_SWITCH, QUANTITIES };

/* The last time a task of one real-time priority was switched out. */
struct seen {
	__u64 at;
	__s32 tid;
	__s32 pad;
};

/* Every failure path has one; host/src/recorder/losses.rs explains each. */
enum loss {
	LOST_NO_BUFFER,	     /* two threshold crossings, one free buffer */
	LOST_NO_BUFFER_USER, /* the same for a freeze that user space requested (counted there) */
	LOST_PENDING_FULL,   /* no slot to remember a waking */
	LOST_IRQ_RANGE,	     /* interrupt number above IRQ_SLOTS: counted in the last slot */
	LOST_UNMATCHED,	     /* end of an interrupt without its start */
	LOST_EARLY,	     /* a latency would be negative */
	LOST_STACK,	     /* a stack could not be taken */
	LOST_SWITCH,	     /* a switch away from a task other than the one last switched in */
	LOST_NMI,	     /* an NMI after NMI_NOTES others that are not in the ring yet */
	LOST_WAKEUP,	     /* the switch-in of a measured task was not seen */
	LOST_BEFORE,	     /* `before_ns` is longer than all wake-ups (judged in user space) */
	LOSSES = 16,
};

struct cpu_block {
	/* Shared with the measuring thread: its own cache line. */
	__u32 on;      /* record on this CPU */
	__u32 request; /* enum trigger, or-ed: freeze requested */
	__u64 serial;  /* number of freezes */
	__u32 active;  /* index of the buffer being written */
	__u32 waiting; /* bits of `request` that found no free buffer */
	__u64 threshold_ns;
	__u64 late_timer_ns;
	__u64 freeze_head; /* active buffer's head when the request was first seen; 0: no request */
	__u64 nmi_ns;	   /* as `stolen`, of NMIs, which alone write it */
	__u64 nmi_notes;   /* NMIs noted */

	/* Bookkeeping of the programs. */
	__u64 stolen; /* net time of all interrupts that have ended, except NMIs: used to subtract nested ones */
	__u64 faults; /* user page faults since the last switch */
	__u64 fault_address;
	__u64 hist_seq;
	__u64 victim_ns, victim_at; /* victim of the pending TRIGGER_KERNEL */
	__s32 victim_tid, victim_prio;
	char victim_comm[16];
	struct open_window window[LEVELS];
	struct open_timer timer[2]; /* hard, soft */
	__u64 lost[LOSSES];
	__s32 running; /* tid of the task switched in last, + 1; 0: not known yet */
	__u32 skipped; /* OPT_LEAN left out switches since the last recorded one */
	__u64 host_stole_ns; /* steal time since boot, as of the last timer interrupt; 0: unknown */
	__u64 steal_read_at; /* when that was read; 0: never */
	__u64 nmi_filed; /* notes copied to the ring */
	__u64 address;	 /* address_of() */

	struct source nmi;
	struct source irq[IRQ_SLOTS];
	struct source vector[VECTOR_SLOTS];
	struct source softirq[SOFTIRQ_SLOTS];
	struct hist hist[QUANTITIES];
	struct flight_buffer buffer[FLIGHT_BUFFERS];

	/* Activations: the ring; the record at its head is under construction while `run_tid` is not 0. */
	__u64 activations; /* complete records */
	__u64 run_since;   /* when the thread of the open activation last got the CPU */
	__u64 switch_at;   /* when a measured task was switched in that has not left the scheduler yet; 0: none */
	__u64 left_faults; /* page faults of the task being switched out, since it got the CPU */
	__s32 run_tid;
	__s32 hidden_tid; /* the task that the last LOST_SWITCH switched away from; 0: none */
	__u64 begun_at;	  /* when recording found `begun_tid` running */
	__s32 begun_tid;  /* the task that has this CPU since then (begun.h); 0: none, or its activation is open */
	__s32 pad_of_begun;
	struct seen seen[SEEN_SLOTS];
	struct activation activation[ACTIVATION_SLOTS] __attribute__((aligned(64)));
	struct nmi_note nmi_note[NMI_NOTES];
	__u64 asked_at;	   /* when the thread of the open activation called for a sleep until a time (due.h) */
	__u64 asked_timer; /* the timer of that sleep */
	__u64 stack[SITE_WORDS]; /* user stack of a thread that blocks (site.h) */
	__u64 came[2];		 /* comm of the task switched in last */
	__u64 first_writes, copies; /* of `faults`: writes to pages that were not present, or present (copy on write) */
	__u64 switched_at; /* the last switch; 0: it was left out */
	__u64 fault_ip; /* of the last of `faults` */
	__u64 before_ns; /* longest wait that began before the recording and may have been a wake-up */
} __attribute__((aligned(4096)));

enum option {
	OPT_KERNEL_THREADS = 1, /* measure the kernel's own real-time threads too */
	OPT_CHOSEN_ONLY = 2,	/* measure only threads in `wakings`, of any priority */
	OPT_ORDINARY = 4,	/* measure tasks that are not real-time too */
	OPT_FOLLOW = 8,		/* children forked by a selected task are selected */
	OPT_LEAN = 16,		/* leave out events without a real-time or selected task */
	OPT_ACTIVATIONS = 32,
	OPT_SWITCH = 64, /* sched_exit_tp ends the quantity `switch` */
	OPT_ALL_CALLS = 128, /* all system calls, not only those of calls.h */
};

/* Constant for the verifier: code for options that are off is removed when the programs are loaded. */
const volatile __u32 options SEC(".rodata.options") = 0;

/* Tasks that are not real-time matter only as culprits. */
static __always_inline bool ordinary_left_out(void)
{
	return (options & OPT_LEAN) && !(options & (OPT_ORDINARY | OPT_CHOSEN_ONLY));
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of possible CPUs before loading */
	__type(key, __u32);
	__type(value, struct cpu_block);
} blocks SEC(".maps");

static __always_inline struct cpu_block *any_block(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&blocks, &cpu);
}

/* The recording has ended (over.h). One word for all CPUs: user space may be preempted between two stores, and then a CPU
 * that records would miss the wakings by one that does not any more. */
__u64 over SEC(".data.over") = 0;

static __always_inline bool is_over(void)
{
	return *(volatile __u64 *)&over;
}

/* Whether events on this CPU are recorded. */
static __always_inline bool is_on(struct cpu_block *b)
{
	return b->on && !is_over();
}

/* The record under construction. */
static __always_inline struct activation *open_activation(struct cpu_block *b)
{
	return &b->activation[b->activations & (ACTIVATION_SLOTS - 1)];
}

/* Null if this CPU is not recorded. */
static __always_inline struct cpu_block *this_block(void)
{
	struct cpu_block *b = any_block();

	return b && is_on(b) ? b : 0;
}

/* Passed through memory, the pointer becomes a number, on which the verifier allows arithmetic. */
static __always_inline __u64 address_of(struct cpu_block *b, const void *pointer)
{
	*(const void *volatile *)&b->address = pointer;
	return *(volatile __u64 *)&b->address;
}

static __always_inline void lose(struct cpu_block *b, enum loss what)
{
	__sync_fetch_and_add(&b->lost[what], 1);
}

/* host/src/recorder/block.rs asserts the same numbers. */
_Static_assert(sizeof(struct flight_buffer) == 128 + FLIGHT_STACKS * 256 + FLIGHT_SLOTS * 48, "flight_buffer");
_Static_assert(__builtin_offsetof(struct cpu_block, stolen) == 64, "control has its own cache line");
_Static_assert(__builtin_offsetof(struct cpu_block, lost) == 272, "lost");
_Static_assert(__builtin_offsetof(struct cpu_block, nmi) == 440, "nmi");
_Static_assert(__builtin_offsetof(struct cpu_block, hist) == 25808, "hist");
_Static_assert(__builtin_offsetof(struct cpu_block, buffer) == 487848, "buffer");
_Static_assert(__builtin_offsetof(struct cpu_block, activations) == 2094504, "activations");
_Static_assert(__builtin_offsetof(struct cpu_block, before_ns) == 2883904, "before_ns");
_Static_assert(sizeof(struct cpu_block) == 2887680, "cpu_block");
