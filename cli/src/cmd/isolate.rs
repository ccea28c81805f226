//! `lathunt isolate`: reserves CPUs for real-time tasks, and restores everything.

mod hold;
mod show;
mod verify;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::isolate::{plan, text, Request};
use lathunt_core::time::Ns;
use lathunt_host::isolate::{self, survey, Isolation};
use lathunt_host::tree::LIVE;
use lathunt_host::{sched, signals, wall};

use super::units;
use crate::out;

const NONE_YET: &str = "no CPU is isolated yet: select CPUs to isolate with -c";

/// Isolate CPUs for real-time work, verify the isolation, restore everything
///
/// Moves interrupts, work queues, packet steering, kernel threads and programs away from the CPUs given with -c. Every change
/// is written to a journal before it is made. After kill -9, the next lathunt command restores the settings. Settings that
/// somebody else has changed since are reported and not touched.
#[derive(Debug, clap::Args)]
pub struct IsolateArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show the planned changes, the settings that cannot be changed at run time, and the boot parameters for these
    Plan {
        #[command(flatten)]
        what: What,
    },
    /// Isolate until `lathunt isolate restore` or the next boot
    Apply {
        #[command(flatten)]
        what: What,
    },
    /// Isolate while COMMAND runs on these CPUs, or without COMMAND until a signal; new threads are moved away
    ///
    /// If CPUs are already isolated (`isolate apply`), COMMAND runs on those, and they stay isolated. The exit status is that
    /// of COMMAND, or 128 plus the number of the signal that ended it.
    Run {
        #[command(flatten)]
        what: Optional,
        /// Command to run on the isolated CPUs
        #[arg(last = true, value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Verify the isolation under load: interruptions by class, gaps, a verdict and a remedy for each cause
    ///
    /// With -c: measures `cyclic` latency, isolates the CPUs, watches them, measures again, and restores the settings. Without
    /// -c: watches the CPUs isolated already, and compares them with other CPUs. Exit status: 2 if movable interrupts or
    /// foreign threads ran there; 3 if none ran there, but the watching loop did not run all the time.
    Verify {
        #[command(flatten)]
        what: Optional,
        #[command(flatten)]
        how: verify::How,
    },
    /// Show the isolated CPUs, interruptions since the isolation, and settings changed by somebody else
    Status {
        #[command(flatten)]
        common: Common,
    },
    /// Restore everything
    ///
    /// The kernel moves an interrupt only when it next fires. This waits for interrupts that have not moved back yet. Programs
    /// that started while CPUs were isolated by affinity keep the CPUs that they inherited.
    Restore {
        /// Maximum time to wait for interrupts to move back
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::seconds)]
        patience: Ns,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, clap::Args)]
struct What {
    /// CPUs to isolate
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: CpuSet,
    #[command(flatten)]
    more: More,
}

#[derive(Debug, clap::Args)]
struct Optional {
    /// CPUs to isolate [default: the CPUs isolated already]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    #[command(flatten)]
    more: More,
}

#[derive(Debug, clap::Args)]
struct More {
    /// CPUs for all other work [default: all other CPUs]
    #[arg(long, value_name = "LIST")]
    housekeeping: Option<CpuSet>,
    /// Mechanism that keeps threads away: cgroup2, cpuset1, affinity [default: the best one available]
    #[arg(long, value_name = "METHOD", value_parser = ["cgroup2", "cpuset1", "affinity"])]
    by: Option<String>,
    /// Set the frequency governor of the isolated CPUs
    #[arg(long, value_name = "NAME")]
    governor: Option<String>,
    /// Disable idle states of the isolated CPUs with a longer exit latency; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = units::idle_latency)]
    idle_latency: Option<Ns>,
    /// Process not to be moved (name or PID; can be repeated)
    #[arg(long, value_name = "PROCESS")]
    keep: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print only failures
    #[arg(short, long)]
    quiet: bool,
    /// Directory of the journal, where the next command finds it after a kill [default: /run/lathunt/isolate]
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
}

impl Common {
    /// For a new isolation.
    fn directory(&self) -> PathBuf {
        self.journal.clone().unwrap_or_else(isolate::default_directory)
    }

    /// For the one in force.
    fn directory_in_use(&self) -> PathBuf {
        self.journal.clone().unwrap_or_else(isolate::directory_in_use)
    }
}

impl More {
    fn request(&self, cpus: CpuSet) -> Request {
        Request {
            cpus,
            housekeeping: self.housekeeping.clone().unwrap_or_default(),
            mechanism: self.by.as_deref().and_then(isolate::mechanism),
            governor: self.governor.clone(),
            idle_us: self.idle_latency.map(|limit| limit.0 / 1_000),
            keep: self.keep.clone(),
        }
    }
}

/// Runs the action.
///
/// # Errors
/// If the request makes no sense on this machine, or the kernel refuses; everything is unchanged then.
pub fn run(args: IsolateArgs) -> Result<ExitCode> {
    let moves = matches!(args.action, Action::Apply { .. } | Action::Run { .. } | Action::Verify { .. });
    if moves && !sched::ids_are_the_kernels() {
        bail!("cannot isolate in a PID namespace (a container): most threads of the machine are not visible here; run it in the machine's (docker run --pid=host)");
    }
    match args.action {
        Action::Plan { what } => {
            let survey = survey::read(std::path::Path::new(LIVE))?;
            let request = what.more.request(what.cpus);
            show::known_to_keep(&survey, &request, false)?;
            let plan = plan(&survey, &request)?;
            let text = match what.more.common.json {
                true => show::versioned("plan", &plan)?,
                false => text::plan(&plan),
            };
            out::print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Apply { what } => apply(&what),
        Action::Run { what, command } => hold::run(&what, &command),
        Action::Verify { what, how } => verify::run(&what, &how),
        Action::Status { common } => show::status(&common),
        Action::Restore { patience, common } => restore(&common, patience),
    }
}

fn apply(what: &What) -> Result<ExitCode> {
    signals::install()?;
    let common = &what.more.common;
    let isolation = start(&what.more.request(what.cpus.clone()), common, false)?;
    let text = match common.json {
        true => show::versioned("applied", &show::json(&isolation))?,
        false if common.quiet => String::new(),
        false => show::applied(&isolation) + "`lathunt isolate restore` puts everything back.\n",
    };
    isolation.keep()?;
    out::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Isolates, and reports changes left by a killed predecessor. `later`: programs to keep may start later.
fn start(request: &Request, common: &Common, later: bool) -> Result<Isolation> {
    if !request.keep.is_empty() {
        show::known_to_keep(&survey::read(std::path::Path::new(LIVE))?, request, later)?;
    }
    let since = wall::now_rfc3339().unwrap_or_default();
    let (isolation, _, before) = Isolation::apply(&common.directory(), request, since)?;
    if !before.is_empty() && !common.quiet {
        eprintln!("restored {} settings that a killed lathunt had left changed", before.len());
    }
    Ok(isolation)
}

fn restore(common: &Common, patience: Ns) -> Result<ExitCode> {
    let restored = isolate::restore(&common.directory_in_use(), std::time::Duration::from_nanos(patience.0))?;
    if common.json {
        out::print(&show::versioned("restored", &serde_json::json!({ "restored": restored }))?)?;
    } else {
        out::print(&show::restored(&restored, common.quiet))?;
    }
    Ok(ExitCode::from(u8::from(show::failed(&restored) > 0)))
}

/// What was restored after a kill, as text.
pub fn restored(restored: &[lathunt_host::knob::Restored]) -> String {
    show::restored(restored, false)
}

/// The CPUs of a request that must name some.
fn required(cpus: Option<&CpuSet>) -> Result<CpuSet> {
    match cpus {
        Some(cpus) => Ok(cpus.clone()),
        None => bail!(NONE_YET),
    }
}
