//! `lathunt check`: is this machine set up for real time?

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{anyhow, bail, Context, Result};
use lathunt_core::check::facts::Facts;
use lathunt_core::check::judge::worst;
use lathunt_core::check::{self, kconfig, Kconfig, Profile, Severity, Shown, Snapshot};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{parse_duration, Ns};
use lathunt_host::facts::{packed, snapshot};
use lathunt_host::restrict::{to_reading, Programs};
use lathunt_host::tree::LIVE;

use crate::file::write_atomic;
use crate::input;
use crate::{exit, out};

/// Check whether this machine is set up for real time.
///
/// Examines kernel, clocks, scheduling, isolation, power, hardware, memory and running programs; changes nothing. The result of
/// each rule is good, a finding (with the command that fixes it), reported (it depends on the workload), or unknown with the
/// reason. `--snapshot` saves the facts about a machine; `--root` checks such a snapshot on another machine.
#[derive(Debug, clap::Args)]
pub struct CheckArgs {
    /// CPUs of the real-time work [default: the isolated CPUs, else all]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Workload of the machine: periodic, busy-poll, audio or network
    #[arg(long, value_name = "PROFILE", default_value = "periodic")]
    profile: Profile,
    /// Check another machine: a snapshot file, or a directory with its /proc and /sys
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kconfig", "snapshot"])]
    root: Option<PathBuf>,
    /// Check only a kernel configuration, and print the lines to add
    #[arg(long, value_name = "FILE", conflicts_with = "snapshot")]
    kconfig: Option<PathBuf>,
    /// Write the facts that the rules need to FILE, without evaluating them
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
    /// Time for which counters (steal, SMIs, interrupts, temperature) are watched
    #[arg(short = 'D', long, value_name = "TIME", default_value = "1s", value_parser = watch)]
    duration: Duration,
    /// Exit with status 2 if there is a finding of at least this severity: fatal, high, medium or info
    #[arg(long, value_name = "SEVERITY")]
    fail_on: Option<Severity>,
    /// Print the commands, boot parameters and build options that fix the findings, as a script; nothing is executed
    #[arg(long, conflicts_with = "json")]
    fix_script: bool,
    /// Show all rules, also good and inapplicable ones, with the source of each
    #[arg(short = 'a', long)]
    all: bool,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Print only the findings
    #[arg(short, long)]
    quiet: bool,
}

/// Collects, evaluates, prints.
///
/// # Errors
/// One line about the file that cannot be read or written, or the CPUs that do not exist.
pub fn run(args: CheckArgs) -> Result<ExitCode> {
    if args.root.is_some() || args.kconfig.is_some() {
        to_reading(&args.snapshot.as_deref().into_iter().collect::<Vec<_>>(), Programs::None)?;
    }
    let snapshot = gather(&args)?;
    if let Some(path) = &args.snapshot {
        write_atomic(path, snapshot.to_json().as_bytes())?;
        eprintln!("snapshot: {} ({} facts)", path.display(), snapshot.files.len());
        return Ok(ExitCode::SUCCESS);
    }
    let facts = Facts::new(&snapshot, args.profile, args.cpus.as_ref());
    if let Some(cpus) = args.cpus.as_ref().filter(|_| !facts.online.is_empty()) {
        let absent = cpus.minus(&facts.online);
        if cpus.is_empty() {
            bail!("cannot check an empty list of CPUs: online are {}", facts.online);
        }
        if !absent.is_empty() {
            bail!("cannot check CPU {absent}: it is not online; online are {}", facts.online);
        }
    }
    let mut findings = check::check(&facts);
    if snapshot.of == check::Origin::Kconfig {
        // For a bare configuration, only rules that it can decide are shown.
        findings.retain(|finding| {
            finding.outcome != check::Outcome::Unknown && !finding.found.starts_with("a day at")
        });
    }
    out::print(&shown(&args, &snapshot, &facts, &findings))?;
    let failed = args.fail_on.is_some_and(|limit| worst(&findings).is_some_and(|worst| worst >= limit));
    Ok(if failed { exit::EXCEEDED.into() } else { ExitCode::SUCCESS })
}

fn shown(args: &CheckArgs, snapshot: &Snapshot, facts: &Facts, findings: &[check::Finding]) -> String {
    if args.fix_script {
        return check::fix_script(findings);
    }
    let answers = check::answers(facts);
    if args.json {
        return check::json::document(snapshot.of, facts, &answers, findings) + "\n";
    }
    let terminal = std::io::stdout().is_terminal();
    let width = if terminal { lathunt_host::terminal::columns().unwrap_or(100).clamp(60, 160) } else { 120 };
    let colour = out::has_colour();
    let amount = Shown { width, colour, all: args.all && !args.quiet, only_bad: args.quiet };
    let mut text = check::text(facts, &answers, findings, amount);
    if snapshot.config_is_partial {
        text.insert_str(0, "A part of a kernel configuration (fragment or defconfig): options that it does not set are not judged.\n\n");
    }
    let fragment = check::kconfig_fragment(findings);
    if args.kconfig.is_some() && !fragment.is_empty() {
        text.push_str(&format!(
            "\nAdd to the configuration (scripts/kconfig/merge_config.sh .config FRAGMENT):\n{fragment}"
        ));
    }
    text
}

fn gather(args: &CheckArgs) -> Result<Snapshot> {
    if let Some(path) = &args.kconfig {
        let mut config = Kconfig::default();
        packed::lines(input::open(path)?, LARGEST_BYTES, kconfig::LONGEST_LINE, |line| config.line(line))
            .map_err(|error| input::cannot_read(path, &error))?;
        return config.snapshot().ok_or_else(|| {
            anyhow!(
                "cannot judge {}: it has no line CONFIG_…, so it is not a kernel configuration",
                path.display()
            )
        });
    }
    match &args.root {
        None => Ok(snapshot::take(Path::new(LIVE), args.duration)),
        Some(root) if root.is_dir() => {
            let snapshot = snapshot::take(root, Duration::ZERO);
            if snapshot.files.is_empty() && snapshot.config.is_none() {
                bail!("cannot check {}: it contains neither /proc nor /sys of a machine", root.display());
            }
            Ok(snapshot)
        }
        Some(file) => {
            Snapshot::from_json(&read(file)?).with_context(|| format!("cannot check {}", file.display()))
        }
    }
}

/// Largest file read: a snapshot of a machine with 10000 threads has about 30 MB.
const LARGEST_BYTES: u64 = 1 << 28;

/// A text file, decompressed if gzip (`/proc/config.gz`).
fn read(path: &Path) -> Result<String> {
    let bytes =
        packed::read(input::open(path)?, LARGEST_BYTES).map_err(|error| input::cannot_read(path, &error))?;
    String::from_utf8(bytes).map_err(|_| anyhow!("cannot read {}: it is not text", input::shown(path)))
}

fn watch(text: &str) -> Result<Duration, String> {
    match parse_duration(text, Ns(1_000_000_000)) {
        Ok(ns) if ns > Ns(3_600 * 1_000_000_000) => Err("is longer than an hour".to_owned()),
        Ok(ns) => Ok(Duration::from_nanos(ns.0)),
        Err(error) => Err(error.to_string()),
    }
}
