//! `lathunt box`: how long from a stimulus to its answer, measured from outside?

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

/// Measure round trips from outside: from a stimulus to its answer.
///
/// Sends stimuli on an absolute schedule and measures the time until `lathunt respond` answers, on the same machine or another
/// one.
///
/// CHANNEL is the same at both ends: udp:HOST:PORT, tcp:HOST:PORT, unix:PATH, vsock:CID:PORT, tty:DEVICE@RATE, virtio:DEVICE,
/// ether:INTERFACE, gpio:CHIP:OUT,IN (falling edges; LINE=rising: rising ones); on one machine also pipe, pty, mqueue, eventfd,
/// futex, futex-pi, mutex, semaphore, semaphore:sysv, signal, condvar. Answers are matched with stimuli by a random session key
/// and a sequence number; late, lost, duplicated, out-of-order and damaged answers are counted.
///
/// Exit status: 0 measured, and within the deadline if one was given; 1 could not measure; 2 deadline or -b exceeded; 3
/// inconclusive: answers were lost, or the responder disappeared.
#[derive(Args)]
pub struct BoxArgs {
    /// Channels to measure, all at the same time
    #[arg(value_name = "CHANNEL", required_unless_present = "pair")]
    pub channels: Vec<Channel>,
    /// Interval of the stimuli of each channel; bare numbers are µs
    #[arg(short, long, value_name = "TIME", default_value = "1000us", value_parser = interval)]
    pub interval: Ns,
    /// Timing of the stimuli: periodic, random (0.5 to 1.5 intervals), `swept[:STEPS]` (a repeated sweep from 0.5 to 1.5
    /// intervals), burst:N (N at once in each interval)
    #[arg(long, value_name = "PATTERN", default_value = "periodic", value_parser = pattern)]
    pub pattern: Pattern,
    /// Length of the measurement: 60s, 5m, 2h [default: until Ctrl-C]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Ns>,
    /// CPUs of the threads of the box, one channel after the other [default: the last CPU that this process may use]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// Real-time priority (SCHED_FIFO) of the receiving thread; the sending thread runs one below. 0: ordinary threads
    #[arg(short, long, default_value_t = 95, value_parser = clap::value_parser!(i32).range(0..=99))]
    pub priority: i32,
    /// Round trip that must not be exceeded (else exit status 2); bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    pub deadline: Option<Ns>,
    /// Stop at the first round trip above this, with exit status 2; bare numbers are µs
    #[arg(short, long, value_name = "TIME", value_parser = microseconds)]
    pub break_at: Option<Ns>,
    /// Maximum time to wait for an answer, at the end and on channels that carry one stimulus at a time; bare numbers are
    /// seconds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = seconds)]
    pub timeout: Ns,
    /// Maximum time to wait for the responder at the start; bare numbers are seconds
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = seconds)]
    pub wait: Ns,
    /// Before the measurement, request known delays from the responder and check that each is measured correctly
    #[arg(long)]
    pub calibrate: bool,
    /// Greet the responder just before each stimulus, so that caches are warm and CPUs awake, as with sockperf, ptsematest,
    /// pmqtest and svsematest. Measures the cost of the path alone; not with --deadline, as real stimuli find caches cold
    #[arg(long, conflicts_with_all = ["latmon", "deadline"])]
    pub warm: bool,
    /// Measure between two threads of this process instead, one waking the other: pipe, pty, mqueue, eventfd, futex, futex-pi,
    /// mutex, semaphore, semaphore:sysv, signal, condvar. `preempt[:N]`: N threads [default: 8] of rising priority on one CPU,
    /// the highest at -p, each released while the next lower one computes; verifies the order and measures each preemption
    /// latency
    #[arg(long, value_name = "KIND", value_parser = pair, conflicts_with = "channels")]
    pub pair: Vec<Pair>,
    /// With --pair: both threads on one CPU, one pair per CPU [default: on two CPUs]
    #[arg(short = 'S', long, requires = "pair")]
    pub smp: bool,
    /// With --pair: measure every ordered pair of CPUs, one after the other; -D is the length of each measurement
    #[arg(long, requires = "pair", conflicts_with_all = ["smp", "calibrate", "listen", "lines"])]
    pub matrix: bool,
    /// Compare the methods to receive (blocking, sigio, epoll, busy-poll, io-uring, xdp) in alternating rounds, with the CPU time
    /// of each. The responder is a thread of this process, on the address of CHANNEL or with --pair; -D is the length of each
    /// method
    #[arg(long, value_name = "WHAT", value_parser = ["receive"], conflicts_with_all = ["matrix", "calibrate", "latmon", "listen", "lines"])]
    pub compare: Option<String>,
    /// Explain the worst round trips from kernel events (needs root): late reception of the stimulus, processing in the
    /// responder, late answer; with --pair preempt, late threads. With a responder on another machine, only the part of this
    /// machine is explained
    #[arg(long, conflicts_with_all = ["matrix", "compare", "latmon"])]
    pub record: bool,
    /// Number of worst round trips to keep
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub worst: u16,
    /// While measuring, serve /histogram (1000 lines), /metrics and /run over HTTP; a bare port is on 127.0.0.1. With --latmon:
    /// address that latmus connects to
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<String>,
    /// Write the histogram as 1000 lines: line N is the number of round trips from N-1 to N µs, the last line the number of all
    /// longer ones
    #[arg(long, value_name = "FILE")]
    pub lines: Option<PathBuf>,
    /// Act as latmon: wait on TCP port 2306 of 127.0.0.1, or on --listen, for latmus of EVL or `lathunt respond --latmon`,
    /// which selects the interval and receives the latencies; ends after -D or on Ctrl-C
    #[arg(long, conflicts_with_all = ["pair", "calibrate", "interval", "pattern"])]
    pub latmon: bool,
    /// Do not lock memory
    #[arg(long)]
    pub no_mlock: bool,
    /// Write the run to run.lathunt.json in this directory, which is created if needed, or to this file if its name ends in
    /// .json
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Print the run as JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Print only the result, no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// Measures.
///
/// # Errors
/// One line: no responder, a missing privilege, no such device, a file that cannot be written.
pub fn run(args: BoxArgs) -> Result<ExitCode> {
    if let Some((at, twice)) =
        args.channels.iter().enumerate().find(|(at, channel)| args.channels[..*at].contains(channel))
    {
        bail!("{twice} is named twice (the second time as channel {}): each channel has one box", at + 1);
    }
    if let Some(twice) = repeated(&args.pair) {
        bail!("--pair {twice} is given twice: each kind is measured once");
    }
    if args.pair.is_empty() && (args.smp || args.matrix) {
        bail!("-S and --matrix need a pair of threads: select one with --pair, for example --pair eventfd");
    }
    if let Some(line) = args.channels.iter().find(|channel| args.warm && matches!(channel, Channel::Gpio(..)))
    {
        bail!("--warm cannot greet over {line}: on a line each edge is a stimulus");
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

/// A kind that is named more than once: its rows could not be told apart.
fn repeated(pairs: &[Pair]) -> Option<String> {
    let locals: Vec<Local> = pairs.iter().filter_map(Pair::local).collect();
    let mut of = locals.iter().enumerate();
    of.find(|(at, local)| locals[..*at].contains(local)).map(|(_, local)| local.to_string())
}

/// Threads of one process that wake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Two of them.
    Local(Local),
    /// Several, of rising priority.
    Preempt(u32),
}

impl Pair {
    fn local(&self) -> Option<Local> {
        match self {
            Pair::Local(local) => Some(*local),
            Pair::Preempt(_) => None,
        }
    }
}

impl BoxArgs {
    /// The kinds of pairs.
    #[must_use]
    pub fn locals(&self) -> Vec<Local> {
        self.pair.iter().filter_map(Pair::local).collect()
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
        (args.warm, "--warm"),
        (args.pattern != Pattern::Periodic, "--pattern"),
        (args.listen.is_some(), "--listen"),
        (args.lines.is_some(), "--lines"),
    ];
    match excluded.iter().find(|(given, _)| *given) {
        Some((_, what)) => {
            bail!("--pair preempt is measured alone and on a periodic schedule: drop {what}")
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
        Err(_) => {
            Err(format!("'{text}' is not a pair: {} or preempt[:N]", Local::ALL.map(Local::name).join(", ")))
        }
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
