//! `lathunt hwlat`: does hardware, firmware or the host steal time?

use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::hwlat::{text, Hwlat, FORMAT, VERSION};
use lathunt_core::time::Ns;
use lathunt_host::instrument::hwlat::{smi_counts, spin, tracer, Options};
use lathunt_host::topology::Topology;
use lathunt_host::{arch, facts, signals};

use super::units;
use crate::{exit, out};

/// Does hardware, firmware or the host steal time?
///
/// Uses the kernel's hwlat tracer in an instance of its own where there is one, else a loop on every CPU whose gaps are
/// held against a record of the kernel, SMI counts and stolen time. The answer for each gap is who took it, or "cannot
/// tell". Not for a machine at work: both keep CPUs busy for --width of every --window.
#[derive(Debug, clap::Args)]
pub struct HwlatArgs {
    /// How long
    #[arg(short = 'D', long, value_name = "TIME", default_value = "120s", value_parser = units::seconds)]
    duration: Ns,
    /// Length of a cycle
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::microseconds)]
    window: Ns,
    /// Watched part of it
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = units::microseconds)]
    width: Ns,
    /// Gaps from here on
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = units::microseconds)]
    threshold: Ns,
    /// Exit with 2 when a gap that is not this kernel's own doing is longer
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    hardlimit: Option<Ns>,
    /// CPUs to watch; default: all
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Which detector: tracer, spin, both, or auto (the tracer where there is one)
    #[arg(long, value_name = "WHICH", default_value = "auto", value_parser = ["auto", "tracer", "spin", "both"])]
    detector: String,
    /// The tracer on all CPUs at the same time, instead of one after the other
    #[arg(long)]
    per_cpu: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Watches and prints.
///
/// # Errors
/// When the CPUs are not there, the times make no sense, or the detector asked for does not work here.
pub fn run(args: HwlatArgs) -> Result<ExitCode> {
    if args.width >= args.window {
        bail!("cannot watch {} of every {}: --width must be shorter than --window", args.width, args.window);
    }
    let topology = Topology::read(std::path::Path::new(facts::LIVE))?;
    let cpus = topology.select(args.cpus.as_ref())?;
    let missing = tracer::missing();
    let (with_tracer, with_spin) = match (args.detector.as_str(), &missing) {
        ("spin", _) => (false, true),
        ("auto", Some(_)) => (false, true),
        ("auto", None) => (true, false),
        (_, Some(reason)) => bail!("cannot use the kernel's tracer: {reason}; try --detector spin"),
        (which, None) => (true, which == "both"),
    };
    signals::install()?;
    let options = Options {
        cpus: cpus.clone(),
        duration: args.duration,
        window: args.window,
        width: args.width,
        threshold: args.threshold,
    };
    let before = smi_counts(&cpus);
    let mut found = Vec::new();
    if with_tracer {
        found.push(tracer::run(&options, args.per_cpu, |_| ())?);
    }
    if with_spin {
        let mut spun = spin::run(&options, &topology)?;
        spun.notes.extend(missing.filter(|_| args.detector == "auto"));
        found.push(spun);
    }
    let after = smi_counts(&cpus);
    let report = Hwlat {
        format: FORMAT,
        version: VERSION,
        cpus: cpus.to_string(),
        threshold_ns: args.threshold,
        window_ns: args.window,
        width_ns: args.width,
        hypervisor: arch::hypervisor(),
        smi: before.zip(after).map(|(before, after)| after.iter().sum::<u64>() - before.iter().sum::<u64>()),
        found,
    };
    out::print(&if args.json { report.to_json() + "\n" } else { text::text(&report) })?;
    let exceeded =
        args.hardlimit.is_some_and(|limit| report.worst_not_software().is_some_and(|worst| worst > limit));
    Ok(if exceeded { exit::EXCEEDED.into() } else { ExitCode::SUCCESS })
}
