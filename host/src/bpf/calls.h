/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* System calls in the flight ring, for recordings that are queried for markers, futexes and priorities (`lathunt trace
 * --flight`). While these two tracepoints are attached, every system call of the machine takes the kernel's slow path:
 * other recordings do not even load the programs (Options::calls). */

/* Between K_STEAL and K_RENAME of flight.h. */
enum { K_SYS_ENTER = 21, K_SYS_EXIT = 22 };

#if defined(__TARGET_ARCH_arm64)
#define FUTEX 98
#define SETAFFINITY 122
/* sched_setparam, sched_setscheduler, setpriority, sched_setattr. */
#define SETS_PRIORITY(id) ((id) == 118 || (id) == 119 || (id) == 140 || (id) == 274)
#define LAST_CALL 500
struct pt_regs___call {
	__u64 regs[31];
	__s32 syscallno;
} CORE;
#define ARGUMENTS(r, registers)                                             \
	do {                                                                \
		(r)->wide[0] = ((struct pt_regs___call *)registers)->regs[0]; \
		(r)->wide[1] = ((struct pt_regs___call *)registers)->regs[1]; \
		(r)->expires = ((struct pt_regs___call *)registers)->regs[2]; \
	} while (0)
#else
#define FUTEX 202
#define SETAFFINITY 203
/* setpriority, sched_setparam, sched_setscheduler, sched_setattr. */
#define SETS_PRIORITY(id) ((id) == 141 || (id) == 142 || (id) == 144 || (id) == 314)
#define LAST_CALL 547 /* of x32 */
struct pt_regs___call {
	unsigned long di, si, dx, orig_ax;
} CORE;
#define ARGUMENTS(r, registers)                                       \
	do {                                                          \
		(r)->wide[0] = ((struct pt_regs___call *)registers)->di; \
		(r)->wide[1] = ((struct pt_regs___call *)registers)->si; \
		(r)->expires = ((struct pt_regs___call *)registers)->dx; \
	} while (0)
#endif

/* As in the event set `rt` of a recording through tracefs (host/src/tracefs/events.rs). */
static __always_inline bool call_is_wanted(long id)
{
	return (options & OPT_ALL_CALLS) || id == FUTEX || id == SETAFFINITY || SETS_PRIORITY(id) || id == 449 ||
	       (id >= 454 && id <= 456) || id > LAST_CALL;
}

/* Number of the system call that returns. */
static __always_inline long call_of(struct pt_regs *registers)
{
#if defined(__TARGET_ARCH_arm64)
	return ((struct pt_regs___call *)registers)->syscallno;
#else
	return ((struct pt_regs___call *)registers)->orig_ax;
#endif
}

/* Opens a record for the entry or exit of a system call if it is selected here; the caller fills and closes it. Calls of
 * 32-bit programs are left out: their numbers and arguments have other meanings. */
static __always_inline struct flight_rec *call_opens(long id, __u32 kind, __u32 *stamp)
{
	struct cpu_block *b = call_is_wanted(id) ? this_block() : 0;
	struct flight_rec *r;

	if (!b || is_compat(bpf_get_current_task_btf()))
		return 0;
	r = flight_open(b, bpf_ktime_get_ns(), kind, IRQS_ON, stamp);
	r->current = current_tid();
	r->tid = id;
	return r;
}

static __always_inline int call_begins(struct pt_regs *registers, long id)
{
	__u32 stamp;
	struct flight_rec *r = call_opens(id, K_SYS_ENTER, &stamp);

	if (!r)
		return 0;
	ARGUMENTS(r, registers);
	flight_close(r, stamp);
	return 0;
}

static __always_inline int call_ends(long id, long result)
{
	__u32 stamp;
	struct flight_rec *r = call_opens(id, K_SYS_EXIT, &stamp);

	if (!r)
		return 0;
	r->wide[0] = result;
	r->wide[1] = 0;
	flight_close(r, stamp);
	return 0;
}
