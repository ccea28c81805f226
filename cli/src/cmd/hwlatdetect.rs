//! When the binary is called `hwlatdetect`: options, report and exit codes of the program of that name in rt-tests.
//!
//! Instead of its Python traceback (no tracer in the kernel) there is one clear line, and exit code 1.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use clap::Parser;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::hwlat::text::{hwlatdetect_head, hwlatdetect_sample, hwlatdetect_smis, hwlatdetect_tail};
use lathunt_core::hwlat::{Hwlat, FORMAT, VERSION};
use lathunt_core::time::{parse_duration, Ns};
use lathunt_host::instrument::hwlat::{smi_counts, tracer, Options};
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;
use lathunt_host::{pm_qos, signals};

use crate::exit::usage_error;
use crate::file::{target_like, write_atomic};
use crate::own::Kind;
use crate::{exit, out};

/// Looks for latencies of the hardware with the kernel's hwlat tracer.
#[derive(Debug, Parser)]
// Python's argparse accepts any unambiguous prefix of an option.
#[command(name = "hwlatdetect", disable_version_flag = true, infer_long_args = true)]
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
    #[arg(long, value_parser = micros)]
    window: Option<Ns>,
    /// time to actually measure
    #[arg(long, value_parser = micros)]
    width: Option<Ns>,
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
            if !error.use_stderr() {
                let _ = error.print(); // the help
                return ExitCode::SUCCESS;
            }
            eprintln!("hwlatdetect: error: {}", usage_error(&error));
            return ExitCode::from(2); // like argparse
        }
    };
    detect(&args).unwrap_or_else(|error| {
        eprintln!("hwlatdetect: {}", exit::one_line(&error));
        exit::COULD_NOT_MEASURE.into()
    })
}

/// An earlier report: one sample per line.
fn samples_kind() -> Kind {
    Kind::Text("ts: #.#, inner:#, outer:#".to_owned())
}

fn detect(args: &Args) -> Result<ExitCode> {
    let file = args
        .report
        .as_deref()
        .map(|path| target_like(Path::new(path), "hwlatdetect.txt", &samples_kind()))
        .transpose()?;
    if let Some(reason) = tracer::missing() {
        bail!("{reason}; `lathunt hwlat --detector spin` works without it");
    }
    let topology = Topology::read(Path::new(LIVE))?;
    let wanted = args.cpulist.as_deref().map(str::parse::<CpuSet>).transpose()?;
    let cpus = topology.select(wanted.as_ref())?;
    let (window, width) = cycle(args.window, args.width);
    let options = Options { cpus, duration: args.duration, window, width, threshold: args.threshold };
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
    let debug =
        |text: &str| if args.debug && !args.quiet { out::print(&format!("{text}\n")) } else { Ok(()) };
    signals::install()?;
    let seconds = args.duration.0 / 1_000_000_000;
    for line in settings(args, window, width, seconds, &options.cpus) {
        debug(&line)?;
    }
    say(&hwlatdetect_head(seconds, &report, args.cpulist.as_deref(), args.report.as_deref()))?;
    let held = pm_qos::hold(0).map_err(|error| eprintln!("hwlatdetect: {error}")).ok();
    if held.is_some() {
        debug("c-states disabled")?;
    }
    let threshold_us = args.threshold.0 / 1000;
    debug(&format!("enabling detector module (threshold: {threshold_us})"))?;
    debug(&format!("detector module enabled (threshold: {threshold_us})"))?;
    let before = smi_counts(&topology.online);
    let found = tracer::run(&options, false, |sample| {
        if args.watch {
            let _ = out::print(&hwlatdetect_sample(sample));
        }
    })?;
    let smi = before.zip(smi_counts(&topology.online)).map(|(before, after)| -> Vec<u64> {
        after.iter().zip(before).map(|(after, before)| after.saturating_sub(before)).collect()
    });
    let held = held.map(drop).is_some();
    // First, so that a stdout that cannot be written does not cost the report, nor the reverse.
    let samples: String = found.samples.iter().map(hwlatdetect_sample).collect();
    let saved = file.as_deref().map_or(Ok(()), |file| write_atomic(file, samples.as_bytes()));
    let print = || -> Result<()> {
        if signals::stop_requested().is_some() {
            out::print("interrupted\n")?;
        }
        debug("disabling detector module")?;
        if held {
            debug("c-states enabled")?;
        }
        debug("detector module disabled")?;
        say(&hwlatdetect_tail(&found))?;
        if let Some(smi) = smi {
            out::print(&hwlatdetect_smis(&smi))?; // its --quiet does not silence these
            say(&format!("SMIs during run: {}\n", smi.iter().sum::<u64>()))?;
        }
        if let (Some(path), Ok(())) = (args.report.as_deref(), &saved) {
            out::print(&format!("report saved to {path} ({} samples)\n", found.samples.len()))?;
        }
        if args.watch {
            Ok(())
        } else {
            Ok(out::print(&samples)?)
        }
    };
    let printed = print();
    exit::all([printed, saved.context("cannot save the report")])?;
    let limit = args.hardlimit.unwrap_or(args.threshold);
    Ok(ExitCode::from(u8::from(found.max_ns.is_some_and(|max| max > limit))))
}

/// `--debug` output about the settings before the test.
fn settings(args: &Args, window: Ns, width: Ns, seconds: u64, cpus: &CpuSet) -> Vec<String> {
    let us = |ns: Ns| ns.0 / 1000;
    let mut lines = vec!["debugging prints turned on".to_owned()];
    lines.push(format!("threshold set to {}us", us(args.threshold)));
    lines.push(format!("hardlimit set to {}us", us(args.hardlimit.unwrap_or(args.threshold))));
    if let Some(wanted) = args.window {
        if args.width.is_none() && width != cycle(None, None).1 {
            lines.push(format!("shrinking width to {} for new window of {}", us(width), us(wanted)));
        }
        lines.push(format!("window parameter = {}", us(wanted)));
        lines.push(format!("window for sampling set to {}us", us(wanted)));
    }
    if let Some(wanted) = args.width {
        if window != args.window.unwrap_or(cycle(None, None).0) {
            lines.push(format!("widening window to {} for new width of {}", us(window), us(wanted)));
        }
        lines.push(format!("width parameter = {}", us(wanted)));
        lines.push(format!("sample width set to {}us", us(wanted)));
    }
    lines.push(format!("test duration is {seconds}s"));
    if args.cpulist.is_some() {
        lines.push(format!("set tracing_cpumask to {}", cpus.to_mask()));
    }
    lines
}

/// The kernel's own window and width if none is given. Like the original, a window too short for the width halves the
/// width, and a width too long for the window doubles the window.
fn cycle(window: Option<Ns>, width: Option<Ns>) -> (Ns, Ns) {
    let (default_window, default_width) = (Ns(1_000_000_000), Ns(500_000_000));
    match (window, width) {
        (Some(window), None) if window <= default_width => (window, Ns(window.0 / 2)),
        (window, width) => {
            let (window, width) = (window.unwrap_or(default_window), width.unwrap_or(default_width));
            (if width >= window { Ns(width.0.saturating_mul(2)) } else { window }, width)
        }
    }
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
    (value > Ns::ZERO).then_some(value).ok_or_else(|| "must be above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_and_width_that_do_not_fit_are_changed_as_the_original_means_to() {
        let us = Ns::from_us;
        assert_eq!(cycle(None, None), (us(1_000_000), us(500_000)));
        assert_eq!(cycle(Some(us(100_000)), None), (us(100_000), us(50_000)), "the width shrinks");
        assert_eq!(cycle(None, Some(us(2_000_000))), (us(4_000_000), us(2_000_000)), "the window grows");
        assert_eq!(cycle(Some(us(1_000)), Some(us(900))), (us(1_000), us(900)));
    }

    #[test]
    fn debugging_tells_what_was_set_as_the_original_does() {
        let words = ["hwlatdetect", "--debug", "--window", "100ms", "--cpu-list", "0-3"];
        let args = Args::try_parse_from(words).unwrap();
        let (window, width) = cycle(args.window, args.width);
        let lines = settings(&args, window, width, 120, &"0-3".parse().unwrap());
        assert_eq!(
            lines,
            [
                "debugging prints turned on",
                "threshold set to 10us",
                "hardlimit set to 10us",
                "shrinking width to 50000 for new window of 100000",
                "window parameter = 100000",
                "window for sampling set to 100000us",
                "test duration is 120s",
                "set tracing_cpumask to f",
            ]
        );
    }

    #[test]
    fn options_may_be_shortened_as_python_allows_it() {
        let args =
            Args::try_parse_from(["hwlatdetect", "--dur", "1h", "--thresh=20us", "--hard", "1ms"]).unwrap();
        assert_eq!((args.duration, args.threshold), (Ns(3_600_000_000_000), Ns::from_us(20)));
        assert_eq!(args.hardlimit, Some(Ns::from_ms(1)));
        assert!(Args::try_parse_from(["hwlatdetect", "--w", "1"]).is_err(), "width, window or watch?");
    }
}
