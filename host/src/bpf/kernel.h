/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* The kernel fields that our programs read, and no others: this file is our whole dependency on the kernel. CO-RE
 * relocates each access. No vmlinux.h, which would hide the dependencies, and no <linux/bpf.h>, which needs the
 * headers of one architecture on the search path. */

#include <stdbool.h>

typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef signed int __s32;
typedef unsigned int __u32;
typedef signed long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* include/uapi/linux/bpf.h: part of the ABI, never renumbered. */
enum { BPF_MAP_TYPE_HASH = 1, BPF_MAP_TYPE_ARRAY = 2 };
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_MMAPABLE = 1 << 10 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#define CORE __attribute__((preserve_access_index))

struct k_sigaction {
	struct {
		void *sa_handler;
	} sa;
} CORE;

struct thread_info {
	__u32 cpu; /* x86 since 5.16 (bcf9033e5449), arm64 since 5.1x; else see cpu_of() */
#if defined(__TARGET_ARCH_arm64)
	unsigned long flags;
#else
	__u32 status; /* since 4.16 */
#endif
} CORE;

#define TS_COMPAT 2		/* in `status` during a call with a number of 32-bit programs; asm/thread_info.h */
#define TIF_32BIT (1ul << 22)	/* in `flags` of a 32-bit program; asm/thread_info.h */

struct rq {
	__u64 clock, clock_task;  /* ns, as of the last event of the scheduler there; clock_task stands still in interrupts */
	__u64 prev_steal_time;	  /* ns; CONFIG_PARAVIRT */
	__u64 prev_steal_time_rq; /* ns; CONFIG_PARAVIRT_TIME_ACCOUNTING */
} CORE;

struct cfs_rq {
	struct rq *rq; /* CONFIG_FAIR_GROUP_SCHED */
	__s32 throttle_count; /* > 0: it, or a group above it, is out of its quota; CONFIG_CFS_BANDWIDTH */
} CORE;

struct sched_entity {
	struct cfs_rq *cfs_rq; /* the same; for tasks of every class */
	__u64 exec_start; /* clock_task when it last had the CPU, or was given it; 0: unknown. Tasks of every class */
} CORE;

struct timerqueue_node {
	__s64 expires;
} CORE;

struct hrtimer_cpu_base;

struct hrtimer_clock_base {
	struct hrtimer_cpu_base *cpu_base;
	__u32 index;  /* which clock */
	struct hrtimer *running; /* the timer whose handler runs */
	__s64 offset; /* to CLOCK_MONOTONIC */
} CORE;

struct hrtimer_cpu_base {
	struct hrtimer_clock_base clock_base[8]; /* in the order of `index` */
} CORE;

struct hrtimer {
	struct timerqueue_node node;
	__s64 _softexpires; /* as requested; node.expires has the slack added */
	void *function; /* renamed or a bit field in some versions: read only if it exists */
	struct hrtimer_clock_base *base;
	__u8 state;   /* 0: not queued; read only if it exists */
	__u8 is_soft; /* expires in softirq context; since 4.16 */
} CORE;

/* The timeout of a call, on its thread's stack. */
struct hrtimer_sleeper {
	struct hrtimer timer;
	struct task_struct *task;
} CORE;

/* A timer of the timer wheel. */
struct timer_list {
	unsigned long expires; /* jiffies, as asked for */
	void *function;
	__u32 flags;
} CORE;

#define TIMER_DEFERRABLE 0x00080000 /* include/linux/timer.h */

/* Addresses of timer functions: static ones, which BTF does not list; 0: unknown. */
extern const void hrtimer_wakeup __ksym __weak; /* the thread that sleeps */
extern const void process_timeout __ksym __weak; /* the thread in schedule_timeout() */
extern const void posix_timer_fn __ksym __weak;
extern const void it_real_fn __ksym __weak; /* setitimer */
extern const void timerfd_tmrproc __ksym __weak;
extern const void dl_task_timer __ksym __weak;

struct sched_dl_entity {
	struct hrtimer dl_timer;      /* replenishes a throttled task at its next period */
	unsigned int dl_throttled : 1; /* its budget is used up */
	unsigned int dl_yielded : 1; /* throttled until then; cleared when it is replenished */
} CORE;

struct sched_info {
	__u64 last_arrival; /* clock when it last got a CPU */
	__u64 last_queued; /* clock when it began to wait for the CPU: woken, preempted or moved; 0: it does not wait */
} CORE;

struct mm_struct {
	unsigned long start_code, end_code; /* of the program itself, not of its libraries */
} CORE;

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	struct sched_dl_entity dl;
	struct sched_info sched_info; /* CONFIG_SCHED_INFO */
	__s32 pid;	/* thread id (gettid) */
	__s32 tgid;
	__u32 policy;	/* SCHED_* */
	__s32 prio;	/* -1 deadline, 0..99 real time (lower wins), 100..139 fair */
	__u32 flags;	/* PF_* */
	__s32 wake_cpu; /* CPU it last ran on */
	__u32 __state;	/* since 5.14 */
	__s32 on_rq;	/* 1: on a run queue */
	__s32 on_cpu;	/* CONFIG_SMP */
	unsigned long nvcsw; /* number of times it blocked; incremented before sched_switch */
	unsigned long nivcsw; /* number of times it was preempted */
	unsigned int in_iowait : 1; /* it waits for a device */
	unsigned int frozen : 1; /* stopped, or frozen by cgroup v2; since 5.2, CONFIG_CGROUPS */
	bool throttled; /* it waits for its group's quota; since 6.18, which throttles tasks one by one */
	char comm[16];
	void *stack;
	struct mm_struct *mm; /* 0: kernel thread */
} CORE;

#define TASK_STOPPED 0x4 /* include/linux/sched.h */
#define TASK_TRACED 0x8
#define TASK_FROZEN 0x8000 /* since 6.1, as TASK_FREEZABLE */
#define PF_EXITING 0x00000004 /* include/linux/sched.h */
#define PF_KTHREAD 0x00200000
#define PF_IO_WORKER 0x00000010 /* threads of io_uring and vhost have no system call either */
#define PF_USER_WORKER 0x00004000
#define SCHED_FIFO 1 /* include/uapi/linux/sched.h */
#define SCHED_RR 2
#define SCHED_DEADLINE 6
#define MAX_RT_PRIO 100	      /* include/linux/sched/prio.h */

/* CPU that it last ran on: of a waking task, the tracepoint's target_cpu. */
static __always_inline __u32 cpu_of(struct task_struct *p)
{
	return bpf_core_field_exists(p->thread_info.cpu) ? p->thread_info.cpu : (__u32)p->wake_cpu;
}

/* Not a call on arm64 (since 6.11); a call on x86 (as in the code of 6.18), so not twice in a program.
 * bpf_get_current_pid_tgid() is always a call. */
static __always_inline __s32 current_tid(void)
{
	return bpf_get_current_task_btf()->pid;
}

/* Stores where this CPU is the only writer, ordered with the stores around it for readers on other CPUs. An
 * exchange, because an addition whose result is unused orders nothing on arm64 (STADD). */
static __always_inline void publish(__u64 *to, __u64 value)
{
#if defined(__TARGET_ARCH_x86)
	barrier(); /* stores become visible in program order */
	*(volatile __u64 *)to = value;
	barrier();
#else
	__sync_lock_test_and_set(to, value);
#endif
}

static __always_inline void count_up(__u64 *counter)
{
	publish(counter, *counter + 1);
}

/* The stopper of a CPU (migration/N) shows the highest real-time priority and preempts all real-time tasks
 * (kernel/sched/core.c, sched_set_stop_task()). */
static __always_inline bool is_stopper(struct task_struct *p)
{
	return !p->prio && (p->flags & PF_KTHREAD) && *(__u64 *)&p->comm[0] == 0x6f6974617267696dull; /* "migratio" */
}
