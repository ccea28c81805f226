/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Whether a thread that blocks in a system call is held up there by the kernel itself, and does not wait for what the call
 * waits for: a page fault when the kernel reads or writes memory of the program (with rseq, on the way out of any call), a
 * lock of its memory map that a fork, mmap or mprotect of another thread holds, on PREEMPT_RT also a spinlock. */

#define TASK_INTERRUPTIBLE 0x1 /* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 0x2
#define TASK_RTLOCK_WAIT 0x1000 /* since 5.15 */

/* Calls whose own wait a signal ends. */
static __always_inline bool waits_interruptibly(__s32 call)
{
	switch (call) {
#if defined(__TARGET_ARCH_arm64)
	case 4: case 22: case 72: case 73: /* io_getevents, epoll_pwait, pselect6, ppoll */
	case 95: case 98: case 101: case 115: /* waitid, futex, nanosleep, clock_nanosleep */
	case 133: case 137: /* rt_sigsuspend, rt_sigtimedwait */
	case 183: case 188: case 192: case 193: /* mq_timedreceive, msgrcv, semtimedop, semop */
	case 202: case 207: case 212: case 242: case 243: /* accept, recvfrom, recvmsg, accept4, recvmmsg */
	case 128: case 260: case 292: /* restart_syscall, wait4, io_pgetevents */
#else
	case 7: case 23: case 34: case 35: /* poll, select, pause, nanosleep */
	case 43: case 45: case 47: case 61: case 65: case 70: /* accept, recvfrom, recvmsg, wait4, semop, msgrcv */
	case 128: case 130: /* rt_sigtimedwait, rt_sigsuspend */
	case 202: case 208: case 220: case 230: case 232: /* futex, io_getevents, semtimedop, clock_nanosleep, epoll_wait */
	case 243: case 247: /* mq_timedreceive, waitid */
	case 270: case 271: case 281: case 288: case 299: /* pselect6, ppoll, epoll_pwait, accept4, recvmmsg */
	case 219: case 333: /* restart_syscall, io_pgetevents */
#endif
	case 441: case 449: case 455: /* epoll_pwait2, futex_waitv, futex_wait */
		return true;
	}
	return false;
}

/* Reads of timers, pipes and sockets and io_uring wait interruptibly too; those of files wait for a device. */
static __always_inline bool reads(__s32 call)
{
#if defined(__TARGET_ARCH_arm64)
	return call == 63 || call == 65 || call == 426; /* read, readv, io_uring_enter */
#else
	return call == 0 || call == 19 || call == 426;
#endif
}

/* `state`: in which it leaves the CPU, 0 if that is not known. */
static __always_inline bool is_held_up(struct task_struct *task, __s32 call, __u32 state)
{
	if (state & TASK_RTLOCK_WAIT)
		return true;
	if (!(state & TASK_UNINTERRUPTIBLE))
		return false;
	return waits_interruptibly(call) || (reads(call) && !BPF_CORE_READ_BITFIELD(task, in_iowait));
}

/* Stopped rather than waiting, in a call or not. */
static __always_inline bool is_stop(__u32 state)
{
	return state & (TASK_STOPPED | TASK_TRACED | TASK_FROZEN);
}

/* The state in which it leaves the CPU, with that of a thread frozen by cgroup v1 also for one that cgroup v2 froze: it
 * sleeps as many calls do, and still has the number of the call out of which it was woken to be frozen. */
static __always_inline __u32 state_left(struct task_struct *task, __u32 state)
{
	if (state & TASK_INTERRUPTIBLE && bpf_core_field_exists(task->frozen) && BPF_CORE_READ_BITFIELD(task, frozen))
		state |= TASK_FROZEN;
	return state;
}
