/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* One record for each activation of a measured thread: from its waking to where it blocks again. A thread that is woken
 * while it is still on its way to sleep ends one and begins the next, without a switch.
 *
 * Built in the slot at the head of its CPU's ring while the thread has the CPU, saved beside its waking when it is
 * preempted, and appended when it blocks. User space reads the ring every 20 to 50 ms (host/src/recorder/activations.rs); what
 * it did not read in time is overwritten and counted. So wake-ups are recorded without a lookup at the switch-out, and
 * every statistic of an application is computed outside the kernel.
 * Not in it: an activation that goes on when recording ends, and one that began before it. */

#define ACTIVATION_SLOTS 4096
#define MOST_16 0xffff /* counts of 16 bits stop there */

#define SYSCALL_KERNEL -2 /* a thread of the kernel */
#define SYSCALL_NONE -1
#define SYSCALL_EXITS -3 /* the thread is ending */
#define SYSCALL_STOPPED -4 /* in no call: by a signal, a debugger or the freezer */

enum via { VIA_THREAD, VIA_TIMER, VIA_INTERRUPT };
enum activation_flag {
	ACT_SHARED = 1,
	ACT_ARMED_LATE = 2,
	ACT_AWAKE = 4,	/* it began before the thread had left the CPU: no wake-up, `in_at` is the waking */
	ACT_STAYED = 8, /* it ended so: the kernel counts no block */
	ACT_COMPAT = 32, /* `syscall` is of the 32-bit table */
	ACT_CONTENDED = 64, /* it blocks in a futex call whose third argument is 2: what a waited-for mutex of glibc has */
	ACT_AT_ONCE = 128, /* it ended where a wait for a timer returned at once, because that had expired (due.h) */
	ACT_AFTER_UNSEEN = 16, /* the one before it ended so, and was not seen to begin: it is not recorded */
};
/* Of a thread that was switched out runnable. */
enum preempted { PREEMPTED = 1, PREEMPTED_UNSEEN };

/* Field for field in core/src/trace/activation.rs, which decodes it. */
struct activation {
	__u64 stamp;   /* sequence number + 1, written last */
	__u64 waking;  /* CLOCK_MONOTONIC, as all times */
	__u64 expires; /* since when the timer that woke it was due (due.h), `slack` before what was programmed; 0: not woken by a timer */
	__u64 entry;   /* when that timer's handler began */
	__u64 in_at;   /* first switched in */
	__u64 out_at;  /* switched out, blocked; ACT_STAYED: it asked to sleep, or was woken on the way */
	__u64 run_ns;  /* had the CPU, interrupts included */
	__u64 argument; /* first argument of the system call it blocks in */
	__u64 fault_address; /* of the last page fault */
	__s32 tid, tgid;
	__s32 waker_tid, prev_tid;
	__s16 prio, waker_prio, prev_prio;
	__s16 syscall; /* it blocks in; -1: in an exception (page fault); SYSCALL_KERNEL */
	__u16 preemptions, faults;
	__u16 cpu; /* where it was switched in first */
	__u8 operation; /* low byte of the second argument */
	__u8 via;	/* enum via */
	__u8 flags;	/* enum activation_flag */
	__u8 policy;
	__u16 waker_cpu;
	__u16 blocks;	   /* how often the thread has blocked by now, by the kernel's own count; jobs ended by yielding count too */
	__u16 late_sleeps; /* it asked to sleep until a time that had passed, or for a timer that had expired (due.h) */
	char comm[16], waker_comm[16], prev_comm[16];
	__u64 late_sleep; /* the last such time */
	__u64 late_by;	  /* the most by which one had passed */
	__u64 slack;	  /* how much of its lateness is the slack of its timer */
	__u32 site;	  /* of the program's calls that led to `syscall` (site.h); 0: not known */
	__u16 stack;  /* hash of the stack pointer there */
	__u16 source; /* hash of the timer that woke it */
};
_Static_assert(sizeof(struct activation) == 192, "wire record has no padding");

/* What is known of one thread between its waking and its next block. The usual path touches the first cache line. */
struct waking {
	__s32 tid; /* 0: free; claimed by compare-and-exchange, also by user space */
	__s32 waker_tid;
	__u64 at;      /* 0: nothing pending */
	__u64 expires; /* 0: not woken by a timer */
	__u64 entry;   /* when that timer's handler began */
	__s16 waker_prio;
	__u16 waker_cpu;
	__u8 via;
	__u8 preempted; /* enum preempted: `saved` holds what it did so far; if that was not seen, how often it had blocked */
	__u8 flags; /* of its activation */
	__u8 job_ended; /* a deadline task has yielded until its next period */
	__u64 woken_due; /* since when the last timer that woke it was due */
	char waker_comm[16];
	struct activation saved;
	__u64 armed;	   /* when the timer it armed last is due (due.h); 0: not known */
	__u32 armed_timer; /* that timer: the low half of its address */
	__u16 jobs;	   /* ended by yielding */
	__u16 source;	   /* hash of the timer that woke it */
	__u64 slack; /* of `expires` */
	__u64 reserved[5];
};
_Static_assert(__builtin_offsetof(struct waking, saved) == 64, "one cache line before it");
_Static_assert(sizeof(struct waking) == 320, "as in host/src/recorder/chosen.rs");

/* The system call a blocked thread is in. It needs no tracepoint on the way of every system call. */
struct pt_regs___syscall {
#if defined(__TARGET_ARCH_arm64)
	__u64 regs[31];
	__u64 sp, orig_x0;
	__s32 syscallno;
#else
	unsigned long orig_ax, di, si, dx, bx, cx, sp;
#endif
} CORE;
/* Of them on the stack of a thread; 0: not known yet. */
__u64 registers_at;
/* No call: the verifier puts a move in its place. Since Linux 6.2. */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;
