//! One activation of a thread as recorded: from its waking to its next block.
//!
//! 192 bytes, little endian, laid out as `struct activation` in host/src/bpf/activation.h. [`crate::application`]
//! combines them into jobs.

use crate::comm::Comm;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};

/// Number of 8-byte words in a record.
pub const WORDS: usize = 24;

/// Context that woke the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Another thread, or itself.
    Thread,
    /// The callback of a timer.
    Timer,
    /// Another interrupt or softirq.
    Interrupt,
    /// Not known: woken before recording began.
    Unknown,
}

impl Via {
    /// From `via` of a record or of a pending waking, whose upper six bits are flags.
    #[must_use]
    pub fn of_byte(byte: u8) -> Via {
        match byte & 3 {
            0 => Via::Thread,
            _ if Via::is_by_wheel(byte) => Via::Timer,
            1 => Via::Timer,
            2 => Via::Interrupt,
            _ => Via::Unknown,
        }
    }

    /// [`Activation::by_timerfd`] in the same byte.
    #[must_use]
    pub fn is_by_timerfd(byte: u8) -> bool {
        byte & 35 == 33
    }

    /// Whether the timeout of a call that counts in ticks did, in the same byte.
    #[must_use]
    pub fn is_by_wheel(byte: u8) -> bool {
        byte & 35 == 34
    }
}

/// Sources that can end a wait for several events (poll, epoll).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sources {
    /// Not known: there may be several.
    #[default]
    Unknown,
    /// Timers and at most one other source.
    One,
    /// One descriptor, and perhaps a timeout.
    Descriptor,
    /// Only timers.
    Timers,
}

/// Where a thread blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Point {
    /// Number of the system call, or [`Point::EXCEPTION`] and the other negative constants.
    pub syscall: i16,
    /// Its first argument: the address of a futex, a file descriptor.
    pub argument: u64,
    /// Low byte of its second argument: the operation of a futex.
    pub operation: u8,
    /// `syscall` is from the table of 32-bit programs.
    pub compat: bool,
    /// The call site, if the user chose one; else 0, as always in records.
    pub site: u32,
}

impl Point {
    /// `syscall` of a thread that blocks in an exception of its code (a page fault).
    pub const EXCEPTION: i16 = -1;
    /// `syscall` of a kernel thread.
    pub const KERNEL: i16 = -2;
    /// `syscall` of a thread that exits.
    pub const EXITS: i16 = -3;
    /// `syscall` of a thread that was stopped in its code.
    pub const STOPPED: i16 = -4;
    /// This minus a number: a thread that the kernel holds up in that call.
    pub const HELD_UP: i16 = -16;

    /// The system call in which the kernel holds the thread up, by a page fault or a lock of its own: it does not wait
    /// there for what the call waits for.
    #[must_use]
    pub fn held_up_in(self) -> Option<Point> {
        let is_it = self.syscall <= Point::HELD_UP;
        is_it.then(|| Point { syscall: Point::HELD_UP.saturating_sub(self.syscall), ..self })
    }
}

/// A thread as recorded; [`Thread`] is its form in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    /// Thread id.
    pub tid: Tid,
    /// Priority on the kernel's scale.
    pub prio: Prio,
    /// Name.
    pub comm: Comm,
}

impl Who {
    /// The thread for reports.
    #[must_use]
    pub fn thread(&self) -> Thread {
        Thread { tid: self.tid, comm: self.comm.text(), prio: Some(self.prio) }
    }
}

/// Sleeps until times that had passed: releases that were overrun.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LateSleeps {
    /// Number of sleeps.
    pub count: u16,
    /// The last of these times.
    pub last: Mono,
    /// The longest time by which one had passed at the call.
    pub most: Ns,
}

/// From a waking to the next block. Plain data: tens of thousands per second are read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activation {
    /// The thread.
    pub thread: Who,
    /// Its process.
    pub tgid: Tid,
    /// Scheduling policy, as the kernel numbers it.
    pub policy: u8,
    /// CPU of its first switch-in.
    pub cpu: Cpu,
    /// When it was woken.
    pub waking: Mono,
    /// Due time of the timer that woke it, and start of its handler. Due: its programmed expiry, but not before it was
    /// armed or its clock was set.
    pub timer: Option<(Mono, Mono)>,
    /// Part of the latency that is timer slack: in a SCHED_OTHER thread the latency counts from the requested time.
    pub slack: Ns,
    /// The timeout of its call counts in ticks: its program may have asked for a time up to this much earlier than the due
    /// time of `timer`. Zero: it counts in ns, or no timeout woke it.
    pub rounded: Ns,
    /// When it was first switched in.
    pub switched_in: Mono,
    /// When it blocked.
    pub blocked: Mono,
    /// CPU time, interrupts included.
    pub execution: Ns,
    /// Number of preemptions.
    pub preemptions: u16,
    /// Whether it was preempted while under SCHED_DEADLINE; `policy` is only the policy at its start.
    pub was_reserved: bool,
    /// Whether it was switched out at least once because its control group had used up its CPU quota.
    pub out_of_quota: bool,
    /// Whether it blocked because it was stopped by a signal, a debugger or the freezer, in a system call or outside of one.
    pub stopped: bool,
    /// Whether it was woken while its control group had used up its CPU quota on the CPU where it was.
    pub woken_out_of_quota: bool,
    /// Page faults of user code (counted on x86 only).
    pub faults: u16,
    /// Address of the last page fault.
    pub fault_address: u64,
    /// Where it blocked.
    pub point: Point,
    /// Call site: a hash of the return addresses found on the stack, the same in each run of a program. One call may
    /// have two sites if another value on the stack looked like a return address. 0: not known.
    pub site: u32,
    /// Hash of the stack pointer of that call.
    pub stack: u16,
    /// Hash of the timer that woke it; 0: the timeout of its call, or no timer.
    pub source: u16,
    /// What woke it.
    pub via: Via,
    /// That is the timer of a timerfd, not the timeout of its call. False if not known.
    pub by_timerfd: bool,
    /// The thread on the CPU of the waking (in an interrupt, the interrupted thread).
    pub waker: Who,
    /// CPU of the waking.
    pub waker_cpu: Cpu,
    /// The previous thread on its CPU.
    pub before: Who,
    /// That thread had the CPU for less than half of the wait for it.
    pub after_several: bool,
    /// A task of equal priority was on the CPU in between.
    pub shared: bool,
    /// The timer that woke it was due before it was armed.
    pub armed_late: bool,
    /// By how much another thread armed that timer after it was due; zero: none did.
    pub armed_after: Ns,
    /// It blocked in a system call whose third argument is 2: in a futex wait, a contended mutex of glibc (or a lock
    /// with the same protocol).
    pub contended: bool,
    /// It was woken before it had left the CPU: it was not switched in, and `switched_in` is its waking.
    pub awake: bool,
    /// It ended with such a waking: `blocked` is the start of the timed sleep, or else the waking.
    pub stayed: bool,
    /// The previous one also stayed, and its start was not recorded: it has no record, and the kernel counts no block
    /// for it.
    pub after_unseen: bool,
    /// It ended in a wait for a timer that had already expired: the call returned at once, without blocking.
    pub at_once: bool,
    /// Sources that can end the wait in which it blocked: not part of the record, set by the reader if it knows them.
    pub sources: Sources,
    /// Number of blocks in the life of the thread, as counted by the kernel, modulo 2^16.
    pub blocks: u16,
    /// Sleeps until times that had passed.
    pub late_sleeps: Option<LateSleeps>,
}

impl Activation {
    /// Whether the policy of its thread is real-time; a real-time priority alone may be a PI boost.
    #[must_use]
    pub fn is_realtime(&self) -> bool {
        matches!(self.policy, 1 | 2 | 6) // SCHED_FIFO, SCHED_RR, SCHED_DEADLINE
    }

    /// Reads the record with sequence number `seq`, its words as the machine read them; `None` if it is torn or its
    /// times go backwards. About 20 ns.
    #[must_use]
    pub fn parse(words: &[u64; WORDS], seq: u64) -> Option<Activation> {
        // By byte offset, as in the C struct.
        let word = |at: usize| words[at / 8];
        let int = |at: usize| (word(at) >> (at % 8 * 8)) as i32;
        let short = |at: usize| int(at) as i16;
        let byte = |at: usize| int(at) as u8;
        let comm =
            |at: usize| Comm::new((u128::from(word(at)) | u128::from(word(at + 8)) << 64).to_le_bytes());
        let thread = |tid: usize, prio: usize, name: usize| Who {
            tid: Tid(int(tid)),
            prio: Prio(i32::from(short(prio))),
            comm: comm(name),
        };
        let expires = word(16);
        let armed_late = byte(104) & 2 != 0;
        let by_wheel = Via::is_by_wheel(byte(103));
        let (slack, armed_after, rounded) = match word(176) {
            after if armed_late => (0, after, 0),
            // A tick, and above it the slack in ticks.
            ticks if by_wheel => {
                ((ticks >> 32).saturating_mul(ticks & 0xffff_ffff), 0, 2 * (ticks & 0xffff_ffff))
            }
            slack => (slack, 0, 0),
        };
        let activation = Activation {
            thread: thread(72, 88, 112),
            tgid: Tid(int(76)),
            policy: byte(105),
            cpu: Cpu(u32::from(short(100) as u16)),
            waking: Mono(word(8)),
            timer: (expires > 0).then(|| (Mono(expires), Mono(word(24)))),
            slack: Ns(slack),
            rounded: Ns(rounded),
            switched_in: Mono(word(32)),
            blocked: Mono(word(40)),
            execution: Ns(word(48)),
            preemptions: short(96) as u16,
            was_reserved: byte(103) & 128 != 0,
            out_of_quota: byte(103) & 16 != 0,
            woken_out_of_quota: byte(103) & 8 != 0,
            stopped: byte(103) & 4 != 0,
            faults: short(98) as u16,
            fault_address: word(64),
            point: Point {
                syscall: short(94),
                argument: word(56),
                operation: byte(102),
                compat: byte(104) & 32 != 0,
                site: 0,
            },
            site: int(184) as u32,
            stack: short(188) as u16,
            source: short(190) as u16,
            via: Via::of_byte(byte(103)),
            by_timerfd: Via::is_by_timerfd(byte(103)),
            waker: thread(80, 90, 128),
            waker_cpu: Cpu(u32::from(short(106) as u16)),
            before: thread(84, 92, 144),
            after_several: byte(103) & 64 != 0,
            shared: byte(104) & 1 != 0,
            armed_late,
            armed_after: Ns(armed_after),
            contended: byte(104) & 64 != 0,
            awake: byte(104) & 4 != 0,
            stayed: byte(104) & 8 != 0,
            after_unseen: byte(104) & 16 != 0,
            at_once: byte(104) & 128 != 0,
            sources: Sources::default(),
            blocks: short(108) as u16,
            late_sleeps: (short(110) != 0).then(|| LateSleeps {
                count: short(110) as u16,
                last: Mono(word(160)),
                most: Ns(word(168)),
            }),
        };
        let ordered = activation.begin() <= activation.switched_in
            && activation.waking <= activation.switched_in
            && activation.switched_in <= activation.blocked;
        (word(0) == seq + 1 && ordered).then_some(activation)
    }

    /// Whether its thread has not blocked before: its waker created it.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.blocks == u16::from(!self.stayed) && self.via == Via::Thread
    }

    /// Whether the timeout of its call woke it; or another timer, on kernels that do not show whose a timer is.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.via == Via::Timer && self.source == 0 && !self.by_timerfd
    }

    /// Its release: the due time of its timer, else the waking.
    #[inline]
    #[must_use]
    pub fn begin(&self) -> Mono {
        self.timer.map_or(self.waking, |(expires, _)| expires)
    }

    /// [`Activation::begin`] → switched in.
    #[inline]
    #[must_use]
    pub fn latency(&self) -> Ns {
        self.switched_in.since(self.begin())
    }

    /// Waking → switched in.
    #[inline]
    #[must_use]
    pub fn wakeup(&self) -> Option<Ns> {
        (!self.awake).then(|| self.switched_in.since(self.waking))
    }

    /// Whether the timer of its sleep was in time, but a thread woke it later: the freezer of cgroup v1 had stopped it in its
    /// sleep. No handler starts in the very nanosecond in which its timer is due.
    #[must_use]
    pub fn is_thawed(&self) -> bool {
        self.timer.is_some_and(|(due, entry)| due == entry && self.waking > entry)
    }

    /// Whether something else woke it although its timer was due: before the handler of that late timer ran, or from the
    /// freezer.
    #[must_use]
    pub fn is_woken_instead(&self) -> bool {
        self.is_thawed() || self.timer.is_some_and(|(due, entry)| due < entry && entry == self.waking)
    }

    /// Whether it waited behind threads of its own priority, in the order of SCHED_FIFO: one of them had its CPU, and as far as
    /// is known the thread before it had it for most of the wait.
    #[must_use]
    pub fn waited_in_order(&self) -> bool {
        self.shared && !self.after_several
    }

    /// Due → handler of the timer that woke it.
    #[inline]
    #[must_use]
    pub fn timer_part(&self) -> Option<Ns> {
        self.timer.map(|(expires, entry)| entry.since(expires))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_where_the_c_struct_puts_its_fields() {
        let mut bytes = [0; WORDS * 8];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        for (at, value) in [
            (0, 8u64),
            (8, 1_050),
            (16, 1_000),
            (24, 1_040),
            (32, 1_100),
            (40, 2_000),
            (48, 700),
            (56, 99),
            (64, 4096),
            (160, 1_900),
            (168, 60),
            (176, 25),
            (184, 0x0007_0006_feed_0001),
        ] {
            put(at, &value.to_le_bytes());
        }
        for (at, value) in [(72, 5i32), (76, 4), (80, 3), (84, 2)] {
            put(at, &value.to_le_bytes());
        }
        for (at, value) in
            [(88, 9i16), (90, 120), (92, 49), (94, 230), (96, 2), (98, 6), (100, 1), (108, 77), (110, 2)]
        {
            put(at, &value.to_le_bytes());
        }
        put(102, &[137, 253, 11, 1, 3]);
        put(112, b"victim");
        put(128, b"waker");
        put(144, b"before");
        let words = |bytes: &[u8]| {
            let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            std::array::from_fn(|_| words.next().unwrap())
        };
        let read = Activation::parse(&words(&bytes), 7).unwrap();
        assert_eq!((read.latency(), read.timer_part(), read.execution), (Ns(100), Some(Ns(40)), Ns(700)));
        assert_eq!((read.slack, read.armed_after), (Ns::ZERO, Ns(25)));
        let mut in_time = bytes;
        in_time[104] &= !2;
        let in_time = Activation::parse(&words(&in_time), 7).unwrap();
        assert_eq!((in_time.slack, in_time.armed_after), (Ns(25), Ns::ZERO));
        assert_eq!((read.site, read.stack, read.source), (0xfeed_0001, 6, 7));
        assert_eq!((read.via, read.was_reserved, read.after_several), (Via::Timer, true, true));
        assert!(read.by_timerfd && read.out_of_quota && read.woken_out_of_quota && read.stopped);
        let none = |byte: u8| Via::of_byte(byte) == Via::Timer && !Via::is_by_timerfd(byte);
        assert!([5, 9, 17, 65, 129].into_iter().all(none), "flags");
        assert!([34, 42, 98].into_iter().all(none), "on the timer wheel");
        let mut in_ticks = bytes;
        (in_ticks[103], in_ticks[104]) = (34, 0);
        in_ticks[176..184].copy_from_slice(&(3 << 32 | 4_000u64).to_le_bytes());
        let in_ticks = Activation::parse(&words(&in_ticks), 7).unwrap();
        assert_eq!((in_ticks.slack, in_ticks.rounded, in_ticks.by_timerfd), (Ns(12_000), Ns(8_000), false));
        assert_eq!(read.thread.thread().to_string(), "victim/5 (RT 90)");
        assert_eq!(
            (read.waker.comm.text().as_str(), read.before.thread().to_string().as_str()),
            ("waker", "before/2 (RT 50)")
        );
        assert_eq!(read.point, Point { syscall: 230, argument: 99, operation: 137, compat: false, site: 0 });
        assert_eq!(
            (read.via, read.shared, read.cpu, read.preemptions, read.faults),
            (Via::Timer, true, Cpu(1), 2, 6)
        );
        assert_eq!((read.awake, read.stayed, read.wakeup()), (false, true, Some(Ns(50))));
        assert_eq!(
            (read.armed_late, read.blocks, read.late_sleeps),
            (true, 77, Some(LateSleeps { count: 2, last: Mono(1_900), most: Ns(60) }))
        );
        assert!(Activation::parse(&words(&bytes), 8).is_none(), "of another lap");
        let mut early = bytes;
        early[16..24].copy_from_slice(&1_101u64.to_le_bytes());
        assert!(Activation::parse(&words(&early), 7).is_none(), "it ran before its timer was due");
        bytes[40] = 0;
        bytes[41] = 0;
        assert!(Activation::parse(&words(&bytes), 7).is_none(), "blocked before it ran");
    }
}
