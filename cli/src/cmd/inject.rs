//! `lathunt inject`: a known disturbance, to prove that instruments detect it.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use lathunt_core::time::{parse_duration, Cpu, Ns};
use lathunt_host::inject::{inject, Kind, Options, Report};
use lathunt_host::{signals, threads};

/// Inject a known disturbance on one CPU, to verify that the instruments detect it.
///
/// Needs root, or CAP_BPF and CAP_PERFMON (thread and pagefault: only CAP_SYS_NICE). Every pulse ends by itself.
#[derive(Debug, clap::Args)]
pub struct InjectArgs {
    /// Disturbance: irqoff, preemptoff, softirq, thread (SCHED_FIFO hog) or pagefault
    #[arg(value_name = "KIND")]
    pub kind: Kind,
    /// CPU to disturb
    #[arg(short = 'c', long, value_name = "CPU", value_parser = cpu)]
    pub cpu: Cpu,
    /// Length of each pulse; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "500us", value_parser = micros)]
    pub length: Ns,
    /// Time from the start of one pulse to the start of the next; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = micros)]
    pub every: Ns,
    /// Number of pulses
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    pub count: u32,
    /// SCHED_FIFO priority of the kinds thread and pagefault
    #[arg(short = 'p', long, value_name = "PRIO", default_value_t = 98, value_parser = clap::value_parser!(i32).range(1..=99))]
    pub priority: i32,
    /// Allow pulses longer than one second
    #[arg(long)]
    pub yes_really: bool,
    /// Print the report of every pulse as JSON
    #[arg(long)]
    pub json: bool,
}

/// Injects and prints a report.
///
/// # Errors
/// If it was refused or did not work; no CPU is held any more then.
pub fn run(args: InjectArgs) -> anyhow::Result<ExitCode> {
    signals::install()?;
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let options = Options {
        stop: Some(&stop),
        every: args.every,
        count: args.count,
        priority: args.priority,
        yes_really: args.yes_really,
        ..Options::once(args.cpu, args.length)
    };
    // Ctrl-C ends it after the present pulse, and the report is printed.
    let report = std::thread::scope(|scope| {
        threads::scoped(scope, || {
            while !over.load(Ordering::Relaxed) && signals::stop_requested().is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
        })?;
        let report = inject(args.kind, &options);
        over.store(true, Ordering::Relaxed);
        report
    })?;
    let text = if args.json { serde_json::to_string(&report)? + "\n" } else { text(&report) };
    crate::out::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(report: &Report) -> String {
    let shown = |ns: Option<Ns>| ns.map_or("-".to_owned(), |ns| format!("{:.3} µs", ns.as_us()));
    let mut text = format!(
        "{} on CPU {}: {} of {} pulses of {:.3} µs\nactual: min {}, median {}, max {}\nby {}\n",
        report.kind,
        report.cpu,
        report.count,
        report.requested_count,
        report.requested_ns.as_us(),
        shown(report.min_ns),
        shown(report.median_ns),
        shown(report.max_ns),
        report.method,
    );
    report.notes.iter().for_each(|note| text.push_str(&format!("note: {note}\n")));
    text
}

fn cpu(text: &str) -> Result<Cpu, String> {
    text.parse().map(Cpu).map_err(|_| format!("'{text}' is not a CPU number"))
}

/// A bare number means microseconds.
fn micros(text: &str) -> Result<Ns, String> {
    parse_duration(text, Ns::from_us(1)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lathunt_core::time::Mono;
    use lathunt_host::inject::Pulse;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: InjectArgs,
    }

    #[test]
    fn the_command_line_of_the_manual_is_understood() {
        let line = "inject irqoff -c 1 --length 2ms --every 20ms --count 7 --yes-really --json";
        let args = Line::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{error}")).args;
        assert_eq!((args.kind, args.cpu, args.count), (Kind::Irqoff, Cpu(1), 7));
        assert_eq!((args.length, args.every), (Ns::from_ms(2), Ns::from_ms(20)));
        assert!(args.yes_really && args.json);
        for bad in ["inject nothing -c 1", "inject thread", "inject thread -c x", "inject thread -c 1 -p 100"]
        {
            assert!(Line::try_parse_from(bad.split(' ')).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_report_says_what_was_asked_and_what_happened() {
        let report = Report {
            kind: Kind::Thread,
            cpu: Cpu(1),
            method: "FIFO thread",
            requested_ns: Ns::from_us(500),
            requested_count: 2,
            count: 1,
            min_ns: Some(Ns(500_020)),
            median_ns: Some(Ns(500_020)),
            max_ns: Some(Ns(500_020)),
            notes: vec!["stopped".to_owned()],
            pulses: vec![Pulse { begin: Mono(1), end: Mono(500_021) }],
        };
        let text = text(&report);
        assert!(text.contains("thread on CPU 1: 1 of 2 pulses of 500.000 µs"), "{text}");
        assert!(text.contains("median 500.020 µs") && text.ends_with("note: stopped\n"), "{text}");
    }
}
