//! `lathunt box`: how long from a stimulus to its answer, seen from outside?

mod answers;
mod calibrate;
pub mod compare;
pub mod latmon;
pub mod matrix;
mod open;
pub mod preempt;
pub mod record;
pub mod respond;
mod serve;
mod session;
mod table;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Result};
use clap::Args;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::latency_box::channel::{Channel, Local};
use lathunt_core::latency_box::schedule::Pattern;
use lathunt_core::time::Ns;
use lathunt_host::latency_box::preempt::LEVELS;

use super::units::{interval, microseconds, seconds};

/// Sends stimuli on an absolute schedule and measures the time until `lathunt respond` answers, on the same machine or
/// another one.
///
/// CHANNEL is the same at both ends: udp:HOST:PORT, tcp:HOST:PORT, unix:PATH, vsock:CID:PORT, tty:DEVICE@RATE,
/// virtio:DEVICE, ether:INTERFACE, gpio:CHIP:OUT,IN; on one machine pipe, pty, mqueue, eventfd, futex, futex-pi, mutex, semaphore,
/// semaphore:sysv, signal, condvar. Answers pair with their stimuli by a random session key and a sequence number; late,
/// lost, duplicated, out-of-order and damaged ones are counted.
///
/// Exit codes: 0 measured, and within the deadline where one was given; 1 could not measure; 2 deadline or -b exceeded; 3 answers
/// were lost, or the responder went away: the worst may be among them.
#[derive(Args)]
pub struct BoxArgs {
    /// Channels to measure, all at the same time
    #[arg(value_name = "CHANNEL", required_unless_present = "pair")]
    pub channels: Vec<Channel>,
    /// Interval of the stimuli of a channel (bare numbers are µs)
    #[arg(short, long, value_name = "TIME", default_value = "1000us", value_parser = interval)]
    pub interval: Ns,
    /// How stimuli follow each other: periodic, random (0.5 to 1.5 intervals), `swept[:STEPS]` (0.5 to 1.5 intervals again and
    /// again), burst:N (N at once each interval)
    #[arg(long, value_name = "PATTERN", default_value = "periodic", value_parser = pattern)]
    pub pattern: Pattern,
    /// Length of the measurement (60s, 5m, 2h); without it until Ctrl-C
    #[arg(short = 'D', long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Ns>,
    /// CPUs of the box's own threads, one channel after the other [default: the last CPU that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// Real-time priority (SCHED_FIFO) of the thread that receives, the one that sends has one less; 0 measures as ordinary
    /// threads
    #[arg(short, long, default_value_t = 95, value_parser = clap::value_parser!(i32).range(0..=99))]
    pub priority: i32,
    /// Round trip that must not be exceeded; exit code 2 when it is
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    pub deadline: Option<Ns>,
    /// Stop at the first round trip above this; exit code 2
    #[arg(short, long, value_name = "TIME", value_parser = microseconds)]
    pub break_at: Option<Ns>,
    /// How long an answer is waited for at the end, and on a channel that carries one stimulus at a time
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = seconds)]
    pub timeout: Ns,
    /// How long the responder is waited for at the start
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    pub wait: Ns,
    /// Before the measurement, ask the responder for known delays and check that each is seen at its size
    #[arg(long)]
    pub calibrate: bool,
    /// Measure between two threads of this process instead, one waking the other: pipe, pty, mqueue, eventfd, futex, futex-pi,
    /// mutex, semaphore, semaphore:sysv, signal, condvar. `preempt[:N]`: N threads [default: 8] of rising priority on one CPU,
    /// the highest at -p, each released while the next lower one computes; verifies the order and measures each preemption
    #[arg(long, value_name = "KIND", value_parser = pair, conflicts_with = "channels")]
    pub pair: Vec<Pair>,
    /// With --pair: both threads on one CPU, a pair on each CPU [default: on two CPUs]
    #[arg(short = 'S', long, requires = "pair")]
    pub smp: bool,
    /// With --pair: each CPU to each CPU, one after the other; -D is the length of each
    #[arg(long, requires = "pair", conflicts_with = "smp")]
    pub matrix: bool,
    /// Compare the ways to receive (blocking, sigio, epoll, busy-poll, io-uring) in alternating rounds, with the CPU time of each;
    /// the responder is a thread of this process, on the address of CHANNEL or with --pair; -D is the length of each way
    #[arg(long, value_name = "WHAT", value_parser = ["receive"], conflicts_with_all = ["matrix", "calibrate", "latmon", "listen"])]
    pub compare: Option<String>,
    /// Explain the worst round trips from the kernel's events (needs root): why the stimulus was received late, what the responder
    /// did, why the answer was late; with --pair preempt, why a thread ran late. With a responder of another machine only this
    /// machine's part is known
    #[arg(long, conflicts_with_all = ["matrix", "compare", "latmon"])]
    pub record: bool,
    /// Number of worst round trips to keep
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub worst: u16,
    /// While measuring, serve /histogram (1000 lines), /metrics and /run over HTTP; a port alone is of 127.0.0.1. With --latmon:
    /// where latmus connects
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Write the histogram as 1000 lines: line N counts the round trips from N-1 to N µs, the last line the rest
    #[arg(long, value_name = "FILE")]
    pub lines: Option<PathBuf>,
    /// Be latmon: wait on TCP port 2306 of 127.0.0.1, or on --listen, for latmus of EVL or `lathunt respond --latmon`, which
    /// chooses the interval and gets the latencies; ends after -D or with Ctrl-C
    #[arg(long, conflicts_with_all = ["pair", "calibrate"])]
    pub latmon: bool,
    /// Do not lock memory
    #[arg(long)]
    pub no_mlock: bool,
    /// Write the run to run.lathunt.json in this directory, which is made, or to this file if its name ends in .json
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Print the run as JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// No progress, only the result
    #[arg(short, long)]
    pub quiet: bool,
}

/// Measures.
///
/// # Errors
/// One line: no responder, no right, no such device, a file that cannot be written.
pub fn run(args: BoxArgs) -> Result<ExitCode> {
    if let Some((at, twice)) =
        args.channels.iter().enumerate().find(|(at, channel)| args.channels[..*at].contains(channel))
    {
        bail!("{twice} is named twice (the second time as channel {}): each channel has one box", at + 1);
    }
    if args.pair.is_empty() && (args.smp || args.matrix) {
        bail!("-S and --matrix are of pairs of threads: name one with --pair, for example --pair eventfd");
    }
    if args.compare.is_some() && !args.pair.iter().any(|pair| matches!(pair, Pair::Preempt(_))) {
        return compare::run(&args);
    }
    if let Some(levels) = preempt(&args)? {
        return preempt::run(&args, levels);
    }
    match (args.latmon, args.matrix) {
        (true, _) => latmon::monitor::run(&args),
        (_, true) => matrix::run(&args),
        _ => session::run(&args),
    }
}

/// Threads of one process that wake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Two of them.
    Local(Local),
    /// So many, of rising priority.
    Preempt(u32),
}

impl BoxArgs {
    /// The pairs of two.
    #[must_use]
    pub fn locals(&self) -> Vec<Local> {
        let local = |pair: &Pair| match pair {
            Pair::Local(local) => Some(*local),
            Pair::Preempt(_) => None,
        };
        self.pair.iter().filter_map(local).collect()
    }
}

/// The number of threads of `--pair preempt`, which is measured alone.
fn preempt(args: &BoxArgs) -> Result<Option<u32>> {
    let found = args.pair.iter().find_map(|pair| match pair {
        Pair::Preempt(levels) => Some(*levels),
        Pair::Local(_) => None,
    });
    if found.is_none() {
        return Ok(None);
    }
    let excluded = [
        (args.pair.len() > 1, "another --pair"),
        (args.matrix, "--matrix"),
        (args.compare.is_some(), "--compare"),
        (args.calibrate, "--calibrate"),
        (args.pattern != Pattern::Periodic, "--pattern"),
        (args.listen.is_some(), "--listen"),
        (args.lines.is_some(), "--lines"),
    ];
    match excluded.iter().find(|(given, _)| *given) {
        Some((_, what)) => {
            bail!("--pair preempt is measured alone and on a periodic schedule: leave {what} out")
        }
        None => Ok(found),
    }
}

fn pair(text: &str) -> Result<Pair, String> {
    let (name, levels) = text.split_once(':').unwrap_or((text, "8"));
    if name == "preempt" {
        let (least, most) = LEVELS;
        let levels = levels.parse().ok().filter(|levels| (least..=most).contains(levels));
        return levels.map(Pair::Preempt).ok_or_else(|| {
            format!("'{text}': write a number of threads from {least} to {most} after the colon")
        });
    }
    match text.parse() {
        Ok(Channel::Local(local)) => Ok(Pair::Local(local)),
        Ok(_) => {
            Err("two threads of one process need a channel of one machine, for example eventfd".to_owned())
        }
        Err(error) => Err(error.to_string()),
    }
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let (name, number) = text.split_once(':').unwrap_or((text, ""));
    let number = |least: u32, default: Option<u32>| match (number, default) {
        ("", Some(default)) => Ok(default),
        (number, _) => number
            .parse()
            .ok()
            .filter(|number| (least..=10_000).contains(number))
            .ok_or_else(|| format!("'{text}': write a number from {least} to 10000 after the colon")),
    };
    match name {
        "periodic" => Ok(Pattern::Periodic),
        "random" => Ok(Pattern::Random { seed: u64::from(number(0, Some(1))?) }),
        "swept" => Ok(Pattern::Swept { steps: number(2, Some(100))? }),
        "burst" => Ok(Pattern::Burst { size: number(1, None)? }),
        _ => Err(format!("'{text}' is not a pattern: periodic, random, swept or burst:N")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_read() {
        assert_eq!(pattern("periodic"), Ok(Pattern::Periodic));
        assert_eq!(pattern("swept"), Ok(Pattern::Swept { steps: 100 }));
        assert_eq!(pattern("burst:5"), Ok(Pattern::Burst { size: 5 }));
        for bad in ["burst", "burst:0", "swept:1", "often", "burst:99999999"] {
            assert!(pattern(bad).is_err(), "{bad}");
        }
    }
}
