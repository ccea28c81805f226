//! `lathunt record`: how late is every real-time task of the running system, and why?

mod came_online;
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

/// Record the latency of every real-time task of the running system, with causes.
///
/// Records until Ctrl-C, until the duration is over, or until COMMAND exits. With COMMAND or --tasks pid:…, the period,
/// response times and unexpected waits of each thread are reported as well.
///
/// Exit status: 0 within the deadline (or none given); 1 could not record; 2 deadline exceeded; 3 inconclusive.
#[derive(Args, Debug)]
pub struct RecordArgs {
    /// Tasks to record: rt, all, pid:N,…, comm:GLOB,… or cgroup:PATH [default: rt, or COMMAND only]
    ///
    /// With COMMAND, only the selected tasks are recorded, inside and outside of COMMAND, for as long as it runs; its other
    /// threads are not recorded.
    ///
    /// GLOB is a shell pattern (*, ?, [a-z], [!a-z]) for thread names; a \ makes the next character literal, also a comma.
    /// comm:a,comm:b is the same as comm:a,b. A thread is recorded while its name matches, or from the start of its program in
    /// the control group (version 2). Threads moved into a control group later, and all threads of a version 1 control group,
    /// are found by a scan once a second; activations before discovery are counted as lost.
    #[arg(long, value_name = "TASKS")]
    tasks: Option<Selection>,
    /// CPUs to record, as a list: 0-3,6 [default: all online CPUs]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Length of the recording: 60s, 10m, 2h [default: until stopped]. COMMAND is terminated if it is still running then
    #[arg(short = 'D', long, value_parser = seconds)]
    duration: Option<Ns>,
    #[command(flatten)]
    until: UntilArg,
    /// Number of worst cases to keep per CPU
    #[arg(long, alias = "peaks", value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    worst: u16,
    /// Explain worst cases of at least this latency; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "200us", value_parser = microseconds)]
    threshold: Ns,
    /// Latency (for an application: response time) that must not be exceeded; bare numbers are µs
    ///
    /// Latency starts at the programmed expiry for a task woken by a timer, else at the waking; time behind a task of the same
    /// priority is included. For an application, the deadline applies to its real-time threads, or to all threads if none is
    /// real-time. Shell patterns select threads by name, and the first match decides: `control=500us,io-*=10ms,*=none`.
    /// `period` stands for the period of the thread, which is detected. Threads without a deadline are not judged; the verdict
    /// lists them.
    #[arg(long, value_name = "TIME", value_parser = deadlines)]
    deadline: Option<Deadlines>,
    /// Read the deadlines from this file: one per line, in the syntax of --deadline; # starts a comment
    #[arg(long, value_name = "FILE", conflicts_with = "deadline")]
    deadlines: Option<PathBuf>,
    #[command(flatten)]
    strict: Strict,
    /// Stop the recording at the first latency (for an application: response time) above this, with exit status 2; bare numbers
    /// are µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    stop_at: Option<Ns>,
    #[command(flatten)]
    on_late: OnLateArgs,
    /// Wait that starts a job: a shell pattern for a wait, as printed in the table of threads
    ///
    /// Examples: `clock_nanosleep*`, `read 7`, `epoll_wait*`. A job extends from the end of such a wait to the next one of the
    /// thread. If several call sites of a program wait in the same place, the verdict gives each a number that is the same in
    /// every run of that program; `clock_nanosleep TIMER_ABSTIME@721d3c89` selects one of them. Without this option, and for
    /// threads that never wait there, the wait is inferred from how often a thread waits in each place and from its waker; a
    /// PASS is then not possible if other places may also start jobs and these jobs would exceed the deadline. For an interval
    /// between two events or markers of a program, also across threads, use lathunt trace, then lathunt explain --between.
    #[arg(long, value_name = "PLACE")]
    activation: Option<String>,
    /// Also measure end to end: from the release of the first thread to the end of the last one's job
    ///
    /// A,B,C are thread names or shell patterns for them; A wakes B in its job, and B wakes C. --deadline applies to the chain as
    /// to each of its threads; under its name, `A>B>C`, the chain can have its own (`A>B>C=40ms,*=10ms`). Only wake-ups link
    /// jobs: if B does not wait for A (it polls), the activation is counted as not followed, and a PASS is not possible. If B is
    /// still busy, jobs are taken in their order; where that does not show the end of each, it is only known within limits.
    #[arg(long, value_name = "A,B,C", value_parser = chain)]
    chain: Option<Chain>,
    /// Also write the latency histogram files of the PREEMPT_RT patch to this directory, every second and at the end
    ///
    /// DIR may hold the files of an earlier recording, which are overwritten; if it holds other files of these names, nothing
    /// is recorded. All histograms of the patch are written, for every possible CPU; irqsoff, preemptoff and preemptirqsoff
    /// only with --potential. They are plain files: writing to a file `reset` clears the histograms and worst cases of its
    /// directory within a second, and does not affect the results of lathunt itself. Writing to `pid` and `enable/*` has no
    /// effect: they show the settings of --tasks and --potential, and the run notes the attempt.
    #[arg(long, value_name = "DIR")]
    latency_hist: Option<PathBuf>,
    /// Also record potential latencies: irqsoff, preemptoff, preemptirqsoff, or estimate
    ///
    /// Times with interrupts, preemption, or both disabled, on each CPU; for the longest of each, the task at its end and the
    /// kernel functions at its start and end. Idle and offline times are excluded. This needs a kernel with
    /// CONFIG_IRQSOFF_TRACER and CONFIG_PREEMPT_TRACER. Their tracepoints are the most frequent ones of a kernel, so recording
    /// slows down the whole machine; --penalty measures by how much.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    potential: Vec<potential::Potential>,
    /// Also record the terms of a path analysis; lathunt bound computes an upper limit of the scheduling latency from them
    ///
    /// For each CPU, the longest sections that delay the thread of the highest priority, with the kernel functions at their start
    /// and end, and each execution of an interrupt. This needs x86-64 and a PREEMPT_RT kernel with CONFIG_IRQSOFF_TRACER and
    /// CONFIG_PREEMPT_TRACER, and slows down the whole machine, like --potential.
    #[arg(long)]
    path_analysis: bool,
    /// Measure the overhead of recording on this machine first, and store it in the run
    #[arg(long)]
    penalty: bool,
    /// Show tasks and CPUs while recording, worst first; q quits
    #[arg(long, conflicts_with = "json")]
    live: bool,
    /// Also measure the context switch itself (one more BPF program on every switch)
    #[arg(long)]
    switch: bool,
    /// Directory for run.lathunt.json and report.html [default: lathunt-DATE-TIME]. An existing run is renamed to
    /// run.lathunt.json.old
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the run file to stdout instead of the summary; the output of COMMAND goes to stderr
    #[arg(long)]
    json: bool,
    /// Print only the verdict and its reasons
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print every case and reason, also those beyond the height of the terminal
    #[arg(long)]
    all: bool,
    /// Run COMMAND as this user [default: the user who called sudo, else the current user]
    #[arg(long, value_name = "NAME", requires = "command")]
    user: Option<String>,
    /// Program to start and record
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
///
/// # Errors
/// If nothing could be recorded, or the result could not be written.
pub fn run(args: RecordArgs) -> anyhow::Result<ExitCode> {
    let deadlines = deadlines::of(args.deadline, args.deadlines.as_deref())?;
    let follows_command = !args.command.is_empty() && args.tasks.is_none();
    let is_application =
        follows_command || !matches!(args.tasks, None | Some(Selection::RealTime | Selection::All));
    anyhow::ensure!(
        is_application || args.activation.is_none(),
        "--activation needs an application: name it with --tasks pid:N or comm:GLOB, or start a COMMAND"
    );
    anyhow::ensure!(
        is_application || args.chain.is_none(),
        "--chain needs an application: name it with --tasks pid:N or comm:GLOB, or start a COMMAND"
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
    // The period of a thread is unknown while it runs.
    let on_late = args.on_late.wanted();
    on_late.check(deadlines.shortest().is_some(), "--deadline", Ok(()))?;
    session::run(&Plan {
        selection: args.tasks.unwrap_or(Selection::RealTime),
        follows_command,
        cpus: args.cpus,
        duration: args.duration,
        until: args.until.until,
        peaks: usize::from(args.worst),
        threshold: args.threshold,
        deadlines,
        strict: args.strict,
        stop_at: args.stop_at,
        on_late,
        activation: args.activation.map(|place| without_detail(&place)),
        chain: args.chain.map(|chain| chain.0).unwrap_or_default(),
        latency_hist: args.latency_hist,
        potential: potential::Chosen { latencies: args.potential, path_analysis: args.path_analysis },
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

/// Name patterns of threads, at least two.
#[derive(Clone, Debug)]
struct Chain(Vec<String>);

fn chain(text: &str) -> Result<Chain, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    match names.iter().enumerate().find(|(nth, name)| name.is_empty() || names[..*nth].contains(name)) {
        Some((_, name)) if name.is_empty() => Err("a name is empty".to_owned()),
        Some((_, name)) => Err(format!("'{name}' appears twice: each thread is one link of the chain")),
        None if names.len() < 2 => {
            Err("name at least two threads, the first of which is released (A,B,C)".to_owned())
        }
        None => Ok(Chain(names)),
    }
}

/// Reports append the kind of descriptor: `read 7 (timerfd)` is the place `read 7`.
fn without_detail(place: &str) -> String {
    place.split_once(" (").map_or(place, |(place, _)| place).to_owned()
}
