/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* One record per activation of a measured thread: from its waking until it blocks again. When a thread is woken while it is
 * still going to sleep, one activation ends and the next begins without a switch.
 *
 * The record is built in the slot at the head of its CPU's ring while the thread is on the CPU, saved beside its waking when
 * the thread is preempted, and appended when it blocks. User space reads the ring every 20 to 50 ms
 * (host/src/recorder/activations.rs); records not read in time are overwritten and counted. So the switch-out needs no
 * lookup, and all statistics of applications are computed outside the kernel.
 * The one in which recording begins starts with it (begun.h). Not recorded: one that is not over when recording ends. */

#define ACTIVATION_SLOTS 4096
#define MOST_16 0xffff /* 16-bit counters saturate here */

#define SYSCALL_KERNEL -2 /* a kernel thread */
#define SYSCALL_NONE -1
#define SYSCALL_EXITS -3 /* the thread is ending */
#define SYSCALL_STOPPED -4 /* in no call: stopped by a signal, a debugger or the freezer */
#define SYSCALL_HELD_UP -16 /* this minus the number of a call in which the kernel holds it up (held.h) */

enum via { VIA_THREAD, VIA_TIMER, VIA_INTERRUPT, VIA_UNKNOWN /* before the recording (start.h) */ };
/* Flags in `via`. */
#define LEFT_STOPPED 4 /* blocked because it was stopped, in a call or not */
#define OUT_OF_QUOTA 16 /* switched out because its control group had used up its CPU quota, or preempted then */
#define WOKEN_OUT_OF_QUOTA 8 /* woken while its control group had used up its CPU quota on the CPU where it was */
#define OF_RESERVED 128 /* preempted while under SCHED_DEADLINE; `policy` is only the policy at its start */
#define BY_TIMERFD 32 /* the timer that woke it is a timerfd, not the timeout of its call */
#define BY_WHEEL (VIA_INTERRUPT | BY_TIMERFD) /* the timeout of its call, in ticks (wheel.h) */
#define AFTER_SEVERAL 64 /* `prev` had the CPU for less than half of the time since the waking */
enum activation_flag {
	ACT_SHARED = 1,
	ACT_ARMED_LATE = 2,
	ACT_AWAKE = 4,	/* began before the thread had left the CPU: no wake-up, `in_at` is the waking */
	ACT_STAYED = 8, /* ended before the thread left the CPU: the kernel counts no block */
	ACT_COMPAT = 32, /* `syscall` is a number of the 32-bit table */
	ACT_CONTENDED = 64, /* blocks in a futex call whose third argument is 2: glibc's value of a mutex with waiters */
	ACT_AT_ONCE = 128, /* ended where a wait for a timer returned at once, because the timer had expired (due.h) */
	ACT_AFTER_UNSEEN = 16, /* the previous one ended without a switch and its start was not seen: it is not recorded */
};
/* State of a thread that was switched out runnable, or that waits for a CPU since before the recording (WAITED_BEFORE, start.h:
 * `saved.entry` is since when; it may have been woken). */
enum preempted {
	PREEMPTED = 1,
	PREEMPTED_UNSEEN,
	SWITCHED_IN_LATER, /* after the end (over.h) */
	WAITED_BEFORE,
	SLEPT_UNMEASURED, /* it slept, and `saved` tells where (first_block.h) */
};

/* Same fields as core/src/trace/activation.rs, which decodes it. */
struct activation {
	__u64 stamp;   /* sequence number + 1, written last */
	__u64 waking;  /* CLOCK_MONOTONIC, as all times here */
	__u64 expires; /* when the timer that woke it was due (due.h), `slack` before its expiry; 0: not woken by a timer */
	__u64 entry;   /* when the handler of that timer began */
	__u64 in_at;   /* first switched in */
	__u64 out_at;  /* switched out, blocked; ACT_STAYED: it asked to sleep, or was woken before it did */
	__u64 run_ns;  /* time on the CPU, interrupts included */
	__u64 argument; /* first argument of the system call it blocks in */
	__u64 fault_address; /* address of the last page fault */
	__s32 tid, tgid;
	__s32 waker_tid, prev_tid;
	__s16 prio, waker_prio, prev_prio;
	__s16 syscall; /* that it blocks in; -1: in an exception (page fault); SYSCALL_KERNEL */
	__u16 preemptions, faults;
	__u16 cpu; /* CPU of the first switch-in */
	__u8 operation; /* low byte of the second argument */
	__u8 via;	/* enum via and its flags */
	__u8 flags;	/* enum activation_flag */
	__u8 policy;
	__u16 waker_cpu;
	__u16 blocks;	   /* blocks of the thread so far, as counted by the kernel; jobs ended by yielding count too */
	__u16 late_sleeps; /* sleeps until a time that had passed, or for a timer that had expired (due.h) */
	char comm[16], waker_comm[16], prev_comm[16];
	__u64 late_sleep; /* time of the last one */
	__u64 late_by;	  /* by how much a time had passed at most */
	__u64 slack;	  /* part of its lateness that is timer slack; ACT_ARMED_LATE: by how much another thread armed its timer
			   * after it was due; BY_WHEEL: a tick in ns, and above it that part in ticks (wheel.h) */
	__u32 site;	  /* call site that led to `syscall` (site.h); 0, 1: unknown */
	__u16 stack;  /* hash of the stack pointer at that site */
	__u16 source; /* hash of the timer that woke it; 0: the timeout of its call */
};
_Static_assert(sizeof(struct activation) == 192, "wire record has no padding");

#define MORE_TIMERS 3 /* an event loop reads several timers */

/* State of one thread between its waking and its next block. The common path touches the first cache line only. */
struct waking {
	__s32 tid; /* 0: free; claimed by compare-and-exchange, by user space too */
	__s32 waker_tid;
	__u64 at;      /* 0: no waking pending */
	__u64 expires; /* 0: not woken by a timer */
	__u64 entry;   /* when the handler of that timer began */
	__s16 waker_prio;
	__u16 waker_cpu;
	__u8 via;
	__u8 preempted; /* enum preempted: `saved` holds its activation so far; if that was not seen, the number of its blocks */
	__u8 flags; /* of its activation */
	__u8 job_ended; /* a deadline task yielded until its next period */
	__u64 woken_due; /* when the last timer that woke it was due */
	char waker_comm[16];
	struct activation saved;
	__u64 armed;	   /* when the timer it armed last is due (due.h); 0: unknown */
	__u32 armed_timer; /* that timer: the low half of its address */
	__u16 jobs;	   /* jobs ended by yielding */
	__u16 source;	   /* hash of the timer that woke it; 0: the timeout of its call */
	__u64 slack; /* of `expires` */
	__u64 more_armed[MORE_TIMERS]; /* other timers that it armed, the last one first; as `armed` and `armed_timer` */
	__u32 more_timers[MORE_TIMERS];
	__u32 sleep; /* timeout of the call it blocks in: its place on the thread's stack; 0: none, or it was past when armed */
};
_Static_assert(__builtin_offsetof(struct waking, saved) == 64, "one cache line before it");
_Static_assert(sizeof(struct waking) == 320, "as in host/src/recorder/chosen.rs");

static __always_inline void copy_comm(char *to, const struct task_struct *p)
{
	*(__u64 *)&to[0] = *(const __u64 *)&p->comm[0];
	*(__u64 *)&to[8] = *(const __u64 *)&p->comm[8];
}

/* The system call that a blocked thread is in, without a tracepoint on every system call. */
struct pt_regs___syscall {
#if defined(__TARGET_ARCH_arm64)
	__u64 regs[31];
	__u64 sp, orig_x0;
	__s32 syscallno;
#else
	unsigned long orig_ax, di, si, dx, bx, cx, sp, ip;
#endif
} CORE;
/* Where the registers are on a thread's stack; 0: not known yet. */
__u64 registers_at;
/* Not a call: the verifier replaces it by a move. Since Linux 6.2. */
extern void *bpf_rdonly_cast(const void *address, __u32 type) __ksym __weak;
