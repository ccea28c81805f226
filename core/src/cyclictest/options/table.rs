//! Option names: current ones, and those of versions before 2.0.

use super::super::getopt::{Spec, Takes};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Affinity,
    Aligned,
    Breaktrace,
    Clock,
    DefaultSystem,
    DeepestIdleState,
    Distance,
    Duration,
    Latency,
    Fifo,
    Histogram,
    Histofall,
    Histfile,
    Interval,
    Json,
    Laptop,
    Loops,
    Mainaffinity,
    Mlockall,
    RefreshOnMax,
    Nsecs,
    Oscope,
    Priority,
    Priospread,
    Policy,
    Quiet,
    Relative,
    Resolution,
    Secaligned,
    System,
    Smi,
    Smp,
    Spike,
    SpikeNodes,
    Threads,
    Tracemark,
    Unbuffered,
    Verbose,
    Debug,
    Help,
    PosixTimers,
    Numa,
    /// Removed; had no effect on the measurement.
    Retired,
}

const fn spec(id: Id, short: Option<u8>, long: &'static str, takes: Takes) -> Spec<Id> {
    Spec { id, short, long: Some(long), takes }
}

const fn letter(id: Id, short: u8, takes: Takes) -> Spec<Id> {
    Spec { id, short: Some(short), long: None, takes }
}

/// In the order of cyclictest's table, which is visible in the message about ambiguous names.
pub(super) const SPECS: [Spec<Id>; 42] = {
    use Takes::{Argument, Nothing, Optional};
    [
        spec(Id::Affinity, Some(b'a'), "affinity", Optional),
        spec(Id::Aligned, Some(b'A'), "aligned", Optional),
        spec(Id::Breaktrace, Some(b'b'), "breaktrace", Argument),
        spec(Id::Clock, Some(b'c'), "clock", Argument),
        spec(Id::DefaultSystem, None, "default-system", Nothing),
        spec(Id::Distance, Some(b'd'), "distance", Argument),
        spec(Id::Duration, Some(b'D'), "duration", Argument),
        spec(Id::Latency, None, "latency", Argument),
        spec(Id::Fifo, Some(b'F'), "fifo", Argument),
        spec(Id::Histogram, Some(b'h'), "histogram", Argument),
        spec(Id::Histofall, Some(b'H'), "histofall", Argument),
        spec(Id::Histfile, None, "histfile", Argument),
        spec(Id::Interval, Some(b'i'), "interval", Argument),
        spec(Id::Json, None, "json", Argument),
        spec(Id::Laptop, None, "laptop", Nothing),
        spec(Id::Loops, Some(b'l'), "loops", Argument),
        spec(Id::Mainaffinity, None, "mainaffinity", Argument),
        spec(Id::Mlockall, Some(b'm'), "mlockall", Nothing),
        spec(Id::RefreshOnMax, Some(b'M'), "refresh_on_max", Nothing),
        spec(Id::Nsecs, Some(b'N'), "nsecs", Nothing),
        spec(Id::Oscope, Some(b'o'), "oscope", Argument),
        spec(Id::Priority, Some(b'p'), "priority", Argument),
        spec(Id::Quiet, Some(b'q'), "quiet", Nothing),
        spec(Id::Priospread, None, "priospread", Nothing),
        spec(Id::Relative, Some(b'r'), "relative", Nothing),
        spec(Id::Resolution, Some(b'R'), "resolution", Nothing),
        spec(Id::Secaligned, None, "secaligned", Optional),
        spec(Id::System, Some(b's'), "system", Nothing),
        spec(Id::Smi, None, "smi", Nothing),
        spec(Id::Smp, Some(b'S'), "smp", Nothing),
        spec(Id::Spike, None, "spike", Argument),
        spec(Id::SpikeNodes, None, "spike-nodes", Argument),
        spec(Id::Threads, Some(b't'), "threads", Optional),
        spec(Id::Tracemark, None, "tracemark", Nothing),
        spec(Id::Unbuffered, Some(b'u'), "unbuffered", Nothing),
        spec(Id::Verbose, Some(b'v'), "verbose", Nothing),
        spec(Id::Debug, None, "dbg_cyclictest", Nothing),
        spec(Id::Policy, None, "policy", Argument),
        spec(Id::Help, None, "help", Nothing),
        spec(Id::PosixTimers, Some(b'x'), "posix_timers", Nothing),
        spec(Id::DeepestIdleState, None, "deepest-idle-state", Argument),
        // exact, it wins over --priority and --priospread, of which it is a prefix
        spec(Id::Priority, None, "prio", Argument),
    ]
};

/// Options of versions before 2.0. Those that still have a meaning keep it; the others are ignored.
pub(super) const RETIRED: [Spec<Id>; 20] = {
    use Takes::{Argument, Nothing};
    [
        spec(Id::Numa, Some(b'U'), "numa", Nothing),
        letter(Id::Policy, b'y', Argument),
        letter(Id::Latency, b'e', Argument),
        letter(Id::Priospread, b'Q', Nothing),
        spec(Id::Retired, Some(b'n'), "nanosleep", Nothing),
        spec(Id::Retired, None, "notrace", Nothing),
        spec(Id::Retired, Some(b'B'), "preemptirqs", Nothing),
        spec(Id::Retired, Some(b'C'), "context", Nothing),
        spec(Id::Retired, Some(b'E'), "event", Nothing),
        spec(Id::Retired, Some(b'f'), "ftrace", Nothing),
        spec(Id::Retired, Some(b'I'), "irqsoff", Nothing),
        spec(Id::Retired, Some(b'O'), "traceopt", Argument),
        spec(Id::Retired, Some(b'P'), "preemptoff", Nothing),
        spec(Id::Retired, Some(b'T'), "tracer", Argument),
        spec(Id::Retired, Some(b'w'), "wakeup", Nothing),
        spec(Id::Retired, Some(b'W'), "wakeuprt", Nothing),
        spec(Id::Retired, Some(b'X'), "dbg", Nothing),
        spec(Id::Retired, Some(b'G'), "gnuplot", Argument),
        spec(Id::Retired, None, "deepest-idle-state", Argument),
        spec(Id::Retired, Some(b'g'), "of_max", Argument),
    ]
};
