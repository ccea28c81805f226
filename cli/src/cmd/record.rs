//! `lathunt record`: how late is every real-time task of the running system, and whose fault is it?

mod late;
mod nobody;
mod old_files;
mod penalty;
pub mod potential;
mod rows;
mod session;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use lathunt_core::application::Deadlines;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Ns;
use lathunt_host::recording::Selection;

use crate::cmd::deadlines::{self, deadlines};
use crate::cmd::on_late::OnLateArgs;
use crate::cmd::units::{microseconds, seconds};
use crate::cmd::user;
use crate::strict::Strict;
use crate::until::UntilArg;
use session::Plan;

/// How late is every real-time task of the running system, and whose fault is it?
///
/// Records until it is stopped (Ctrl-C), the duration is over, or COMMAND ends. With COMMAND or --tasks pid:… each
/// thread's period, response times and unexpected waits are reported as well.
///
/// Exit status: 0 within the deadline (or none given), 1 could not record, 2 deadline exceeded, 3 recorded but
/// inconclusive.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Whose latencies: rt, all, pid:N,…, comm:GLOB,… or cgroup:PATH; default: rt, or COMMAND alone
    ///
    /// With a COMMAND, the recording lasts as long as it does, and these are recorded, in COMMAND or anywhere else: its other
    /// threads are not.
    ///
    /// A GLOB is a pattern of the shell (*, ?, [a-z], [!a-z]) for names of threads; a \ before a character takes it as it
    /// is, also a comma. comm:a,comm:b is comm:a,b. A thread is recorded from when it takes such a name until it gives it up, or from when its program
    /// begins in the control group (of version 2). Who is moved into one later, or into one of version 1, is looked up
    /// once a second: what a thread did before it was found is counted as lost.
    #[arg(long, value_name = "WHO")]
    tasks: Option<Selection>,
    /// CPUs to record, as a list (0-3,6); default: all online ones
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// How long to record: 60s, 10m, 2h; default: until stopped. A COMMAND that still runs then is ended
    #[arg(short = 'D', long, value_parser = seconds)]
    duration: Option<Ns>,
    #[command(flatten)]
    until: UntilArg,
    /// Keep so many worst cases of each CPU
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    peaks: u16,
    /// Explain worst cases from this latency on; a bare number counts in µs
    #[arg(long, value_name = "TIME", default_value = "200", value_parser = microseconds)]
    threshold: Ns,
    /// Latency (of an application: response time) that must not be exceeded; a bare number counts in µs
    ///
    /// Of a task that a timer wakes it counts from the programmed expiry, of others from the waking. A wait behind a task
    /// of the same priority counts, too. Of an application it is the deadline of its real-time threads, or of all where none
    /// is real time. Patterns of the shell name threads, and the first that fits decides:
    /// `control=500us,io-*=10ms,*=none`. `period` stands for the period of the thread, which is detected. Threads without a
    /// deadline are not judged, and the verdict lists them.
    #[arg(long, value_name = "TIME", value_parser = deadlines)]
    deadline: Option<Deadlines>,
    /// Read the deadlines from this file: one a line, as for --deadline; # begins a comment
    #[arg(long, value_name = "FILE", conflicts_with = "deadline")]
    deadlines: Option<PathBuf>,
    #[command(flatten)]
    strict: Strict,
    /// End the recording at the first latency (of an application: response time) above this, with exit code 2; a bare number
    /// counts in µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    stop_at: Option<Ns>,
    #[command(flatten)]
    on_late: OnLateArgs,
    /// Where jobs begin: a pattern of the shell for a wait, as the table of threads names it
    ///
    /// `clock_nanosleep*`, `read 7`, `epoll_wait*`. A job is what a thread does from the end of a wait there to its next wait
    /// there. Where several calls of a program wait in one place, the verdict names them with a number that is the same in each run of that
    /// program: `clock_nanosleep TIMER_ABSTIME@721d3c89` is one of them alone. Without it, that is inferred from how often a thread waits where, and who ends the wait; other places
    /// that may begin jobs make a PASS impossible where the jobs would be longer than the deadline. For threads that
    /// never wait there it is inferred. From one event or marker of a program to another one, also across threads: lathunt
    /// trace, then lathunt explain --between.
    #[arg(long, value_name = "PLACE")]
    activation: Option<String>,
    /// Also write the files of the PREEMPT_RT patch's latency histograms here, every second and at the end
    ///
    /// DIR may be that of an earlier recording, whose files are written over; others by these names are not, and nothing is
    /// recorded then. All that the patch had, of every possible CPU; irqsoff and its relatives where --potential asks for them. They are
    /// plain files: writing to a file `reset` empties the histograms and worst cases of its directory within a second, and
    /// takes nothing from what lathunt itself reports. Writing to `pid` and `enable/*` changes nothing: they show what
    /// --tasks and --potential ask for, and the run notes that somebody tried.
    #[arg(long, value_name = "DIR")]
    latency_hist: Option<PathBuf>,
    /// Potential latencies too: irqsoff, preemptoff, preemptirqsoff, or estimate
    ///
    /// How long interrupts, preemption, or both at once were off, on each CPU, with the longest of each, who ended it, and
    /// where in the kernel it began and ended; without idle, and without the time in which a CPU is offline. That needs a
    /// kernel with CONFIG_IRQSOFF_TRACER and CONFIG_PREEMPT_TRACER. Their events are the most frequent ones that a kernel
    /// has, and being told of each makes everything slower: --penalty says how much.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    potential: Vec<potential::Potential>,
    /// Measure first what recording costs on this machine, and store it in the run
    #[arg(long)]
    penalty: bool,
    /// Show tasks and CPUs while recording, the worst first; q ends
    #[arg(long, conflicts_with = "json")]
    live: bool,
    /// Measure the context switch itself, too (one more program on the way of every switch)
    #[arg(long)]
    switch: bool,
    /// Directory for run.lathunt.json and report.html; default: lathunt-DATE-TIME. A run that
    /// lies there already is set aside, as run.lathunt.json.old
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the run file on stdout instead of the summary; what COMMAND prints goes to stderr then
    #[arg(long)]
    json: bool,
    /// Print only the verdict and its reasons
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print every case and reason, also those beyond the height of the terminal
    #[arg(long)]
    all: bool,
    /// Run COMMAND as this user; default: the one who called sudo, else this user
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,
    /// Start this program and record it
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// When nothing could be recorded, or the result could not be written.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let deadlines = deadlines::of(args.deadline, args.deadlines.as_deref())?;
    let follows_command = !args.command.is_empty() && args.tasks.is_none();
    let is_application =
        follows_command || !matches!(args.tasks, None | Some(Selection::RealTime | Selection::All));
    anyhow::ensure!(
        is_application || args.activation.is_none(),
        "--activation needs an application: name it with --tasks pid:N or comm:GLOB, or start a COMMAND"
    );
    if let Some((kind @ ("event" | "mark"), name)) =
        args.activation.as_deref().and_then(|place| place.split_once(':'))
    {
        anyhow::bail!(
            "--activation {kind}:{name}: the recorder sees waits, no events or markers of programs. Name a wait (read 7, \
             epoll_wait*), or record a trace (lathunt trace) and measure from there to another event: lathunt explain \
             --between {kind}:{name} …"
        );
    }
    anyhow::ensure!(
        is_application || deadlines.is_empty() || deadlines.plain().is_some(),
        "a deadline for each thread needs an application: name it with --tasks pid:N or comm:GLOB, or start a COMMAND"
    );
    // The period of a thread is not known while it runs.
    let on_late = args.on_late.wanted();
    on_late.check(deadlines.shortest().is_some(), "--deadline", Ok(()))?;
    session::run(&Plan {
        selection: args.tasks.unwrap_or(Selection::RealTime),
        follows_command,
        cpus: args.cpus,
        duration: args.duration,
        until: args.until.until,
        peaks: usize::from(args.peaks),
        threshold: args.threshold,
        deadlines,
        strict: args.strict,
        stop_at: args.stop_at,
        on_late,
        activation: args.activation.map(|place| without_detail(&place)),
        latency_hist: args.latency_hist,
        potential: args.potential,
        penalty: args.penalty,
        live: args.live,
        switch: args.switch,
        output: args.output,
        json: args.json,
        quiet: args.quiet,
        all: args.all,
        user: user::of_command(args.user.as_deref(), "--user", &args.command)?,
        command: args.command,
    })
}

/// Reports add what a descriptor is: `read 7 (timerfd)` is the place `read 7`.
fn without_detail(place: &str) -> String {
    place.split_once(" (").map_or(place, |(place, _)| place).to_owned()
}
