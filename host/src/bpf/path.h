/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
/* Path analysis: per CPU, the longest sections of kernel code that delay the thread of the highest priority, and each execution of
 * an interrupt. core/src/path_analysis computes a bound of the scheduling latency from them. The terms are those of de Oliveira, Casini, de
 * Oliveira and Cucinotta, "Demystifying the Real-Time Linux Scheduling Latency", ECRTS 2020, section 5:
 *   POID  a thread has preemption or interrupts disabled, not to schedule
 *   PAIE  both are enabled and need_resched is set: until preemption is disabled to schedule
 *   PSD   preemption is disabled to schedule -> it is enabled
 *   DST   interrupts are disabled for the context switch -> preemption is enabled
 * The terms exclude interrupts and NMIs: they are measured on a clock that is stopped during these (`thread_time`). They include
 * our own programs.
 *
 * Excluded: offline CPUs, and the wait of idle. The idle loop before and after its wait is in POID, because it runs with
 * preemption disabled (the paper excludes idle). A scheduler run that keeps the current thread is in DST, too: a wake-up after the
 * choice of the next thread waits for its end. A section that is still open at the last read is missing;
 * user space counts it as lost if it is the longest.
 *
 * The events are the preemptirq tracepoints (CONFIG_PREEMPTIRQ_TRACEPOINTS), which fire at the outermost disable and enable. They
 * do not report the reason, which follows from other events:
 *   an interrupt, not a thread, disabled interrupts: a handler starts before they are enabled
 *   preemption was disabled to schedule: __schedule() disables interrupts before it is enabled
 * raw_tp and not tp_btf, so that the programs load, and can be tested, on any kernel. */
#include "kernel.h"
#include "longest.h"
#include "vector.h"

#define TERMS 4
#define EXECUTIONS 65536
#define NMIS 4096

enum term { POID, PAIE, PSD, DST };

enum flag {
	IRQ_OFF = 1,
	PREEMPT_OFF = 2,
	TO_SCHEDULE = 4, /* preemption is disabled to schedule */
	IN_INTERRUPT = 8, /* an interrupt disabled interrupts, not a thread */
	WAITS = 16, /* idle waits */
	KNOWN = 32, /* set by the first scheduler run: the start of an earlier section may be missing */
};

/* Start of a section. Times are thread times; 0: no section is open. */
struct begun {
	__u64 at;
	__u64 from;
	__u64 by;
};

/* One execution of an interrupt. */
struct execution {
	__u64 at; /* arrival */
	__u64 what; /* source << 48 | net duration in ns, at most 2^48 - 1 */
};

/* Of a source: `enum vector`, or this plus the number of the interrupt line. */
#define LINE 16
#define MAX_NS ((1ull << 48) - 1)

struct path_block {
	__u32 on; /* record on this CPU */
	__u32 flags; /* enum flag */
	__u64 seq[TERMS]; /* odd while `longest` is being written */
	__u64 heads[2]; /* number of executions so far, of interrupts and of NMIs: position in the ring */
	__u64 unmatched; /* scheduler runs and sections with interrupts disabled without a start event */
	__u64 irq_ns; /* all interrupts so far, net of NMIs */
	__u64 nmi_ns;
	__u64 irq_off_at; /* CLOCK_MONOTONIC */
	__u64 irq_off_nmi_ns; /* `nmi_ns` at that time */
	__u64 source; /* of the current interrupt */
	struct begun irq_off;
	struct begun preempt_off;
	struct begun open[TERMS];
	__u64 pad[1];
	struct longest longest[TERMS];
	struct execution executions[EXECUTIONS];
	struct execution nmis[NMIS];
} __attribute__((aligned(4096)));
_Static_assert(__builtin_offsetof(struct path_block, longest) == 256, "as in host/src/recorder/path/block.rs");
_Static_assert(sizeof(struct path_block) == 1118208, "as in host/src/recorder/path/block.rs");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set to the number of possible CPUs before loading */
	__type(key, __u32);
	__type(value, struct path_block);
} paths SEC(".maps");

/* __schedule(): first address and the one after the last. */
const volatile __u64 scheduler[2] SEC(".rodata.scheduler") = {};

/* For tests: simulated clock and current thread. */
const volatile bool is_simulated SEC(".rodata.simulated") = false;
struct simulated {
	__u64 now;
	__u32 is_idle;
	__u32 need_resched;
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct simulated);
} simulation SEC(".maps");

/* TIF_NEED_RESCHED as a mask. */
const volatile __u64 resched_flag SEC(".rodata.resched") = 0;
struct thread_info___path {
	unsigned long flags;
} CORE;
struct task_struct___path {
	struct thread_info___path thread_info;
} CORE;

static __always_inline struct simulated *simulated(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&simulation, &key);
}

static __always_inline __u64 clock(void)
{
	struct simulated *s = is_simulated ? simulated() : 0;

	return s ? s->now : bpf_ktime_get_ns();
}

static __always_inline bool current_is_idle(void)
{
	struct simulated *s = is_simulated ? simulated() : 0;

	return s ? s->is_idle : !bpf_get_current_task_btf()->pid;
}

static __always_inline bool need_resched(void)
{
	struct simulated *s = is_simulated ? simulated() : 0;

	return s ? s->need_resched
		 : ((struct task_struct___path *)bpf_get_current_task_btf())->thread_info.flags & resched_flag;
}

static __always_inline struct path_block *this_path(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct path_block *b = bpf_map_lookup_elem(&paths, &cpu);

	return b && b->on ? b : 0;
}

/* CLOCK_MONOTONIC and the total time of NMIs at the same moment, although one may arrive in between. */
static __always_inline __u64 now_and_nmi(struct path_block *b, __u64 *nmi_ns)
{
	__u64 now;

	for (int i = 0; i < 4; i++) {
		*nmi_ns = *(volatile __u64 *)&b->nmi_ns;
		now = clock();
		if (*(volatile __u64 *)&b->nmi_ns == *nmi_ns)
			break;
	}
	return now;
}

/* CLOCK_MONOTONIC minus the time of interrupts and NMIs. */
static __always_inline __u64 thread_time(struct path_block *b, __u64 *now)
{
	__u64 irq_ns, nmi_ns;

	for (int i = 0; i < 4; i++) {
		irq_ns = *(volatile __u64 *)&b->irq_ns;
		*now = now_and_nmi(b, &nmi_ns);
		if (*(volatile __u64 *)&b->irq_ns == irq_ns)
			break;
	}
	return b->flags & IN_INTERRUPT ? b->irq_off.at : *now - irq_ns - nmi_ns;
}

static __always_inline void begins(struct path_block *b, enum term term, struct begun begun)
{
	if (!b->open[term].at)
		b->open[term] = begun;
}

/* Ends at thread time `at`, in the code at `to`. */
static __always_inline void ends(struct path_block *b, void *ctx, enum term term, __u64 at, __u64 now, __u64 to)
{
	struct begun begun = b->open[term];
	struct longest *l = &b->longest[term];

	b->open[term].at = 0;
	if (!begun.at || begun.at >= at || !(b->flags & KNOWN) || at - begun.at <= l->ns)
		return;
	count_up(&b->seq[term]);
	is_longest(l, ctx, at - begun.at, now, begun.from, begun.by, to);
	count_up(&b->seq[term]);
}

/* Preemption and interrupts are enabled. */
static __always_inline void all_on(struct path_block *b, __u64 at, __u64 ip)
{
	if (need_resched())
		begins(b, PAIE, (struct begun){ at, ip, 0 });
}

/* Interrupts were just disabled in __schedule(). */
static __always_inline void scheduler_runs(struct path_block *b, void *ctx, __u64 now, __u64 ip)
{
	struct begun here = b->irq_off, since = b->preempt_off;

	/* Preemption is always disabled in idle: PSD starts here. */
	if (current_is_idle())
		since = here;
	else if (!(b->flags & PREEMPT_OFF)) {
		since = here;
		if (b->flags & KNOWN)
			b->unmatched++;
	}
	ends(b, ctx, POID, since.at, now, ip);
	ends(b, ctx, PAIE, since.at, now, ip);
	b->flags |= PREEMPT_OFF | TO_SCHEDULE | KNOWN;
	b->open[PSD] = since;
	b->open[DST] = here;
}

/* The scheduler run of the current thread has ended. */
static __always_inline void scheduler_returns(struct path_block *b, void *ctx, __u64 at, __u64 now, __u64 ip)
{
	ends(b, ctx, PSD, at, now, ip);
	ends(b, ctx, DST, at, now, ip);
	b->flags &= ~TO_SCHEDULE;
}

static __always_inline void add_execution(struct execution *ring, __u64 places, __u64 *head, __u64 at, __u64 source,
					  __u64 ns)
{
	__u64 place = *head & (places - 1);

	ring[place].at = at;
	ring[place].what = source << 48 | (ns < MAX_NS ? ns : MAX_NS);
	count_up(head);
}

/* A handler starts: interrupts were disabled by an interrupt. */
static __always_inline int interrupt(__u64 source)
{
	struct path_block *b = this_path();
	__u64 nmi_ns;

	if (!b || b->flags & IN_INTERRUPT)
		return 0;
	if (!(b->flags & IRQ_OFF)) {
		b->irq_off_at = now_and_nmi(b, &nmi_ns);
		b->irq_off = (struct begun){ b->irq_off_at - b->irq_ns - nmi_ns, 0, 0 };
		b->irq_off_nmi_ns = nmi_ns;
	}
	b->source = source;
	b->flags |= IRQ_OFF | IN_INTERRUPT;
	return 0;
}
