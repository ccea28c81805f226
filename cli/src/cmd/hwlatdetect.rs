//! When the binary is called `hwlatdetect`: the options, report and exit codes of rt-tests' program of that name.
//!
//! Where that one ends with a Python traceback (no tracer in the kernel) there is one clear line, and exit code 1.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use clap::Parser;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::hwlat::text::{hwlatdetect_head, hwlatdetect_sample, hwlatdetect_tail};
use lathunt_core::hwlat::{Hwlat, FORMAT, VERSION};
use lathunt_core::time::{parse_duration, Ns};
use lathunt_host::instrument::hwlat::{smi_counts, tracer, Options};
use lathunt_host::topology::Topology;
use lathunt_host::{facts, pm_qos, signals};

use crate::{exit, out};

/// Looks for latencies of the hardware with the kernel's hwlat tracer.
#[derive(Debug, Parser)]
#[command(name = "hwlatdetect", disable_version_flag = true)]
struct Args {
    /// total time to test for hardware latency: \<n\>{smdw}
    #[arg(help = "total time to test for hardware latency: <n>{smdw}", long, default_value = "120", value_parser = seconds)]
    duration: Ns,
    /// value above which is considered a hardware latency
    #[arg(long, default_value = "10", value_parser = micros)]
    threshold: Ns,
    /// value above which the test is considered to fail
    #[arg(long, value_parser = micros)]
    hardlimit: Option<Ns>,
    /// time between samples
    #[arg(long, default_value = "1000000", value_parser = micros)]
    window: Ns,
    /// time to actually measure
    #[arg(long, default_value = "500000", value_parser = micros)]
    width: Ns,
    /// filename for sample data
    #[arg(long)]
    report: Option<String>,
    /// the CPUs for the hwlat thread to move across
    #[arg(long = "cpu-list")]
    cpulist: Option<String>,
    /// turn on debugging prints
    #[arg(long)]
    debug: bool,
    /// turn off all screen output
    #[arg(long)]
    quiet: bool,
    /// print sample data to stdout as it arrives
    #[arg(long)]
    watch: bool,
}

/// Runs it; `arguments` without the program's name.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let words = std::iter::once(OsString::from("hwlatdetect")).chain(arguments);
    let args = match Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
            // as argparse does
        }
    };
    detect(&args).unwrap_or_else(|error| {
        eprintln!("hwlatdetect: {}", exit::one_line(&error));
        exit::COULD_NOT_MEASURE.into()
    })
}

fn detect(args: &Args) -> Result<ExitCode> {
    if let Some(reason) = tracer::missing() {
        bail!("{reason}; `lathunt hwlat --detector spin` works without it");
    }
    let topology = Topology::read(std::path::Path::new(facts::LIVE))?;
    let wanted = args.cpulist.as_deref().map(str::parse::<CpuSet>).transpose()?;
    let cpus = topology.select(wanted.as_ref())?;
    // A width that does not fit makes the window wider, as there.
    let window = if args.width >= args.window { Ns(args.width.0 * 2) } else { args.window };
    let options =
        Options { cpus, duration: args.duration, window, width: args.width, threshold: args.threshold };
    let report = Hwlat {
        format: FORMAT,
        version: VERSION,
        cpus: options.cpus.to_string(),
        threshold_ns: options.threshold,
        window_ns: window,
        width_ns: options.width,
        hypervisor: None,
        smi: None,
        found: Vec::new(),
    };
    let say = |text: &str| if args.quiet { Ok(()) } else { out::print(text) };
    signals::install()?;
    let seconds = args.duration.0 / 1_000_000_000;
    say(&hwlatdetect_head(seconds, &report, args.cpulist.as_deref(), args.report.as_deref()))?;
    if args.debug {
        eprintln!("threshold {}, window {window}, width {}", options.threshold, options.width);
    }
    let _held = pm_qos::hold(0).map_err(|error| eprintln!("hwlatdetect: {error}")).ok();
    let before = smi_counts(&options.cpus);
    let found = tracer::run(&options, false, |sample| {
        if args.watch {
            let _ = out::print(&hwlatdetect_sample(sample));
        }
    })?;
    let smi = before.zip(smi_counts(&options.cpus)).map(|(before, after)| -> Vec<u64> {
        after.iter().zip(before).map(|(after, before)| after - before).collect()
    });
    say(&hwlatdetect_tail(&found, smi.as_deref()))?;
    let samples: String = found.samples.iter().map(hwlatdetect_sample).collect();
    if let Some(path) = &args.report {
        crate::file::write_atomic(std::path::Path::new(path), samples.as_bytes())
            .context("cannot save the report")?;
        out::print(&format!("report saved to {path} ({} samples)\n", found.samples.len()))?;
    }
    if !args.watch {
        out::print(&samples)?;
    }
    let limit = args.hardlimit.unwrap_or(args.threshold);
    Ok(ExitCode::from(u8::from(found.max_ns.is_some_and(|max| max > limit))))
}

fn seconds(text: &str) -> Result<Ns, String> {
    positive(text, Ns(1_000_000_000))
}

fn micros(text: &str) -> Result<Ns, String> {
    positive(text, Ns(1_000))
}

fn positive(text: &str, unit: Ns) -> Result<Ns, String> {
    let weeks = text.strip_suffix('w').and_then(|number| number.parse::<u64>().ok());
    let value = match weeks {
        Some(weeks) => Ns(weeks.saturating_mul(7 * 86_400 * 1_000_000_000)),
        None => parse_duration(text, unit).map_err(|error| error.to_string())?,
    };
    (value > Ns::ZERO).then_some(value).ok_or_else(|| "must be more than nothing".to_owned())
}
