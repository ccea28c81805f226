//! `lathunt monitor`: the recorder for months, window by window.

mod scrape;
mod session;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use lathunt_core::application::Deadlines;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::monitor::exceedance::Exceedances;
use lathunt_core::time::{parse_duration, Ns};
use lathunt_host::monitor::store::Limits;
use lathunt_host::recording::Selection;

use super::deadlines::{self, deadlines};
use super::on_late::OnLateArgs;
use super::units;
use session::Plan;

/// Default database.
pub const DATABASE: &str = "/var/lib/lathunt/monitor.sqlite";

/// Record the latency of every real-time task of a production system, continuously.
///
/// A window ends every five minutes of the wall clock (--window). For each CPU, it contains the histograms of `timer`,
/// `wakeup`, `timer+wakeup` and `sharedprio` (waits behind a task of the same priority); for each task name, the same except
/// `timer`, and with a deadline also `response`; for each histogram, the exact maximum with victim, culprit and explanation.
/// `lathunt history` shows them; Prometheus metrics are on 127.0.0.1:9745/metrics. SIGTERM or Ctrl-C ends the monitor after it
/// has closed the last window.
///
/// Needs root, or CAP_BPF and CAP_PERFMON, and CAP_SYSLOG for symbols in stacks; after attaching, all capabilities except the
/// first two are dropped, and these two cannot be used to gain others. Memory: 2.8 MB per possible CPU
/// (/sys/devices/system/cpu/possible), plus about 30 MB. Exit status: 0, or 1 if it could not record or could not store every
/// window.
#[derive(Debug, clap::Args)]
pub struct MonitorArgs {
    /// Length of a window: 5m, 30s; bare numbers are seconds. Windows end at multiples of it in UTC
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = window)]
    window: Ns,
    /// Database for the windows (SQLite)
    #[arg(long, value_name = "FILE", default_value = DATABASE)]
    database: PathBuf,
    /// Delete windows and events older than this: 400d, 12h; a unit is required
    #[arg(long, value_name = "TIME", default_value = "400d", value_parser = keep)]
    keep: Ns,
    /// Size of the database above which the oldest windows are deleted: 500M, 2G
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size)]
    size: u64,
    /// CPUs to record, as a list: 0-3,6 [default: all, including CPUs that come online later]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Tasks to record: rt, all, pid:N,…, comm:GLOB,… or cgroup:PATH
    ///
    /// GLOB is a shell pattern (*, ?, [a-z], [!a-z]) for thread names; a \ makes the next character literal, also a comma. A
    /// thread is recorded while its name matches, or from the start of its program in the control group (version 2). Threads
    /// that enter a control group in another way are found by a scan once a second.
    #[arg(long, value_name = "TASKS", default_value = "rt")]
    tasks: Selection,
    /// Response time that jobs must not exceed; bare numbers are µs. `period`: the period of the thread, which is detected
    ///
    /// A job is the work of a thread from its release until it waits for the next one. Jobs of real-time threads are judged, or
    /// of all threads if none is real-time. Shell patterns select threads by name, and the first match decides:
    /// `control=500us,io-*=10ms,*=none`. With deadlines, each window also holds the response times of these tasks, the number
    /// of late jobs, and the worst job with its explanation.
    #[arg(long, value_name = "TIME", value_parser = deadlines)]
    deadline: Option<Deadlines>,
    /// Read the deadlines from this file: one per line, in the syntax of --deadline; # starts a comment
    #[arg(long, value_name = "FILE", conflicts_with = "deadline")]
    deadlines: Option<PathBuf>,
    /// Latency that wake-ups must not exceed; bare numbers are µs
    ///
    /// The metric `lathunt_exceedance_probability_upper` is the upper limit of the probability that a wake-up exceeds it, for
    /// each latency series. For jobs, the metric refers to their own deadline.
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    latency_deadline: Option<Ns>,
    #[command(flatten)]
    on_late: OnLateArgs,
    /// Span of completed windows that these probabilities are computed from: 24h, 30d; a unit is required
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = keep)]
    exceedance_span: Ns,
    /// Maximum number of task names with series of their own; further names are aggregated as "(others)"
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(0..=1024))]
    task_names: u16,
    /// Address of the Prometheus metrics (path /metrics), or "off". Anyone who can connect can read them
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:9745", value_parser = listen)]
    listen: Listen,
}

/// An address, or none.
#[derive(Clone, Copy, Debug)]
struct Listen(Option<SocketAddr>);

/// Records until a signal comes.
///
/// # Errors
/// One line: what prevents it.
pub fn run(args: MonitorArgs) -> anyhow::Result<ExitCode> {
    let MonitorArgs { window, database, keep, size, cpus, tasks, task_names, listen: Listen(listen), .. } =
        args;
    let deadlines = deadlines::of(args.deadline, args.deadlines.as_deref())?;
    let judged = args.latency_deadline.is_some() || deadlines.shortest().is_some();
    let traces =
        Err("a monitor keeps no traces; use record, or a command that does (lathunt trace snapshot)");
    let on_late = args.on_late.wanted();
    on_late.check(judged, "--latency-deadline, --deadline", traces)?;
    let limits = Limits { keep, bytes: size };
    let exceedances = Exceedances::new(args.exceedance_span, args.latency_deadline);
    let names = usize::from(task_names);
    session::run(&Plan {
        window,
        database,
        limits,
        cpus,
        selection: tasks,
        deadlines,
        on_late,
        latency_deadline: args.latency_deadline,
        exceedances,
        names,
        listen,
    })
}

const SECOND: Ns = Ns(1_000_000_000);
const DAY: Ns = Ns(86_400_000_000_000);

fn window(text: &str) -> Result<Ns, String> {
    let length = parse_duration(text, SECOND).map_err(|error| error.to_string())?;
    match length {
        length if length < Ns::from_ms(100) => Err("is shorter than 100 ms".to_owned()),
        length if length > DAY => Err("is longer than a day".to_owned()),
        length if !length.0.is_multiple_of(1_000_000) => {
            Err("is not a whole number of milliseconds".to_owned())
        }
        length => Ok(length),
    }
}

fn keep(text: &str) -> Result<Ns, String> {
    // Data deleted by a wrong guess are gone.
    if text.trim().ends_with(|last: char| !last.is_alphabetic()) {
        return Err(format!("'{text}' has no unit; write for example 400d, 12h or 90s"));
    }
    let length = parse_duration(text, SECOND).map_err(|error| error.to_string())?;
    if length < SECOND {
        return Err("is shorter than a second".to_owned());
    }
    Ok(length)
}

fn listen(text: &str) -> Result<Listen, String> {
    match text {
        "off" => Ok(Listen(None)),
        _ => text.parse().map(|address| Listen(Some(address))).map_err(|_| {
            format!(
                "'{text}' is not an address with a port; write for example 127.0.0.1:9745, [::1]:9745 or off"
            )
        }),
    }
}

/// A database needs some space before it contains anything.
fn size(text: &str) -> Result<u64, String> {
    match units::bytes(text)? {
        bytes if bytes < 1 << 20 => Err("is less than 1M".to_owned()),
        bytes => Ok(bytes),
    }
}
