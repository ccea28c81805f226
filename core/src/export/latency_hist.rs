//! The files of the latency histograms of the PREEMPT_RT patch (kernel/trace/latency_hist.c, until 4.x), byte for byte,
//! so that existing scripts still work.
//!
//! A histogram has 10240 lines of 1 µs per CPU; larger values are counted in the header and included in minimum,
//! average and maximum. Not reproduced: an early close by a reader that ends the collection, and wake-up latencies from
//! the clocks of two CPUs. `irqsoff`, `preemptoff` and both have files only if recorded: most kernels lack the
//! tracepoints.

use crate::histogram::Histogram;
use crate::series::{Quantity, Series, Thread};
use crate::time::{Cpu, Ns};

const LINES: u64 = 10_240;
/// `MAX_RT_PRIO - 1`, from which the kernel's priority is subtracted.
const TOP: i32 = 99;

/// One file: its path below the directory, and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// `wakeup/CPU0`.
    pub path: String,
    /// Its bytes.
    pub text: String,
}

/// The original name of a quantity; `None` if it did not exist.
#[must_use]
pub fn directory(quantity: Quantity) -> Option<&'static str> {
    quantity.facts().latency_hist
}

/// The directories with figures; each has a file `reset`.
const DIRECTORIES: [Quantity; 7] = [
    Quantity::Wakeup,
    Quantity::SharedPrio,
    Quantity::Timer,
    Quantity::TimerWakeup,
    Quantity::Irqsoff,
    Quantity::Preemptoff,
    Quantity::Preemptirqsoff,
];

/// The recorded quantities, which decide the set of files.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// All possible CPUs, including those without samples.
    pub cpus: Vec<Cpu>,
    /// `irqsoff`, `preemptoff` and both, if recorded.
    pub potential: Vec<Quantity>,
    /// The selected process; 0: no filter.
    pub pid: i32,
}

impl Recorded {
    /// The quantities with a directory and a file `reset`.
    pub fn quantities(&self) -> impl Iterator<Item = Quantity> + '_ {
        let potential =
            |quantity: &Quantity| max_latency_of(*quantity).is_some() || self.potential.contains(quantity);
        DIRECTORIES.into_iter().filter(potential)
    }

    /// Files with the settings of the recording; the original ones were writable.
    #[must_use]
    pub fn settings(&self) -> Vec<File> {
        let file = |path: &str, text: String| File { path: path.to_owned(), text };
        let potential = u8::from(!self.potential.is_empty());
        vec![
            file("enable/wakeup", "1\n".to_owned()),
            file("enable/missed_timer_offsets", "1\n".to_owned()),
            file("enable/timerandwakeup", "1\n".to_owned()),
            file("enable/preemptirqsoff", format!("{potential}\n")),
            file("wakeup/pid", format!("{}\n", self.pid)),
            file("missed_timer_offsets/pid", format!("{}\n", self.pid)),
        ]
    }

    /// All files with figures: those of `series` (per CPU), and the worst case of each.
    #[must_use]
    pub fn figures(&self, series: &[Series], worst: &[Worst]) -> Vec<File> {
        let mut files = Vec::new();
        for quantity in self.quantities() {
            let Some(directory) = directory(quantity) else { continue };
            for &cpu in &self.cpus {
                let found = series.iter().find(|s| s.quantity == quantity && s.cpu == Some(cpu));
                let text = histogram(found.map(|s| &s.histogram));
                files.push(File { path: format!("{directory}/CPU{cpu}"), text });
                if let Some(name) = max_latency_of(quantity) {
                    let worst = worst.iter().find(|w| w.quantity == quantity && w.cpu == cpu);
                    files.push(File { path: format!("{directory}/{name}{cpu}"), text: max_latency(worst) });
                }
            }
        }
        files
    }
}

/// Whether the file `name` that starts with `head` (up to 128 bytes) can be one of these, with any valid content.
#[must_use]
pub fn is_one(name: &str, head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let is_number = |text: &str| text.parse::<i64>().is_ok();
    if name.starts_with("CPU") {
        return head.starts_with("#Minimum latency: ");
    }
    if name.starts_with("max_latency") {
        return head == "(none)\n" || head.contains(" <- ") && head.split(' ').take(3).all(is_number);
    }
    head.trim().is_empty() || is_number(head.trim())
}

/// Potential latencies have no victim, so no such file.
fn max_latency_of(quantity: Quantity) -> Option<&'static str> {
    (!quantity.is_potential()).then_some("max_latency-CPU")
}

/// The contents of `CPUn`.
#[must_use]
pub fn histogram(of: Option<&Histogram>) -> String {
    use std::fmt::Write;
    let whole = |ns: Ns| (ns.0 / 1_000).to_string();
    let undefined = || "<undef>".to_owned();
    let count = of.map_or(0, Histogram::count);
    // The original averages whole µs; the exact sum is more accurate in the same format.
    let average = of.filter(|h| h.count() > 0).map(|h| (h.sum_ns() / h.count() / 1_000).to_string());
    let rows = of.map(Histogram::rows).unwrap_or_default();
    let inside: u64 = rows.iter().take(LINES as usize).sum();
    let mut text = String::with_capacity(LINES as usize * 25);
    let _ = write!(
        text,
        "#Minimum latency: {} microseconds\n#Average latency: {} microseconds\n#Maximum latency: {} microseconds\n\
         #Total samples: {count}\n#There are 0 samples lower than 0 microseconds.\n\
         #There are {} samples greater or equal than {LINES} microseconds.\n#usecs\t{:>16}\n",
        of.and_then(Histogram::min).map_or_else(undefined, whole),
        average.unwrap_or_else(undefined),
        of.and_then(Histogram::max).map_or_else(undefined, whole),
        count - inside,
        "samples"
    );
    for line in 0..LINES {
        let samples = rows.get(line as usize).copied().unwrap_or(0);
        let _ = writeln!(text, "{line:>6}\t{samples:>16}");
    }
    text
}

/// The worst case of one quantity on one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// What was measured.
    pub quantity: Quantity,
    /// Where.
    pub cpu: Cpu,
    /// Its latency.
    pub latency: Ns,
    /// The part before the timer's handler.
    pub timer: Ns,
    /// The late thread.
    pub victim: Thread,
    /// The thread that ran before.
    pub before: Thread,
    /// When the victim was switched in.
    pub at: crate::time::Mono,
}

/// The contents of `max_latency-CPUn`.
#[must_use]
pub fn max_latency(worst: Option<&Worst>) -> String {
    let Some(worst) = worst else { return "(none)\n".to_owned() };
    let prio = |thread: &Thread| TOP - thread.prio.map_or(120, |prio| prio.0);
    let Worst { latency, timer, victim, before, at, .. } = worst;
    format!(
        "{} {} {} ({}) {} <- {} {} {} {}.{:06}\n",
        victim.tid,
        prio(victim),
        latency.0 / 1_000,
        timer.0 / 1_000,
        victim.comm,
        before.tid,
        prio(before),
        before.comm,
        at.0 / 1_000_000_000,
        at.0 / 1_000 % 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Layout;
    use crate::time::{Mono, Prio, Tid};

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new(Layout::LATENCY);
        values.iter().for_each(|&ns| histogram.record(Ns(ns)));
        histogram
    }

    #[test]
    fn a_histogram_has_their_head_all_its_lines_and_every_sample() {
        let text = histogram(Some(&of(&[2_999, 5_000, 10_239_999, 10_240_000, 99_000_000])));
        let head = "#Minimum latency: 2 microseconds\n#Average latency: 23897 microseconds\n\
                    #Maximum latency: 99000 microseconds\n#Total samples: 5\n\
                    #There are 0 samples lower than 0 microseconds.\n\
                    #There are 2 samples greater or equal than 10240 microseconds.\n#usecs\t         samples\n\
                    \u{20}    0\t               0\n     1\t               0\n     2\t               1\n";
        assert!(text.starts_with(head), "{}", &text[..600]);
        assert!(text.ends_with(" 10238\t               0\n 10239\t               1\n"));
        assert_eq!(text.lines().count(), 7 + 10_240);
    }

    #[test]
    fn without_samples_the_extremes_are_undefined_and_there_is_no_worst() {
        let head = "#Minimum latency: <undef> microseconds\n#Average latency: <undef> microseconds\n\
                    #Maximum latency: <undef> microseconds\n#Total samples: 0\n";
        assert!(histogram(None).starts_with(head));
        assert_eq!(max_latency(None), "(none)\n");
    }

    #[test]
    fn the_worst_names_both_with_their_priorities_as_users_write_them() {
        let thread = |tid, comm: &str, prio| Thread { tid: Tid(tid), comm: comm.into(), prio: Some(prio) };
        let worst = Worst {
            quantity: Quantity::TimerWakeup,
            cpu: Cpu(0),
            latency: Ns(412_900),
            timer: Ns(12_400),
            victim: thread(12_345, "my task", Prio::from_rt(99)),
            before: thread(678, "worker", Prio(120)),
            at: Mono(17_000_042_000),
        };
        assert_eq!(max_latency(Some(&worst)), "12345 99 412 (12) my task <- 678 -21 worker 17.000042\n");
        assert!(is_one("max_latency-CPU0", max_latency(Some(&worst)).as_bytes()));
    }

    #[test]
    fn what_another_program_wrote_is_none_of_these() {
        let recorded = Recorded { cpus: vec![Cpu(0)], potential: vec![Quantity::Irqsoff], pid: 7 };
        for file in [recorded.settings(), recorded.figures(&[], &[])].concat() {
            let name = file.path.rsplit('/').next().unwrap();
            assert!(is_one(name, &file.text.as_bytes()[..file.text.len().min(128)]), "{}", file.path);
            assert!(!is_one(name, b"dear to somebody\n"), "{}", file.path);
        }
        assert!(is_one("reset", b"") && is_one("reset", b"1\n"));
    }

    #[test]
    fn the_files_are_those_of_the_patch_and_no_others() {
        let cpus = vec![Cpu(0), Cpu(1)];
        let mut recorded = Recorded { cpus, potential: Vec::new(), pid: 0 };
        let paths = |recorded: &Recorded| {
            let files = [recorded.settings(), recorded.figures(&[], &[])].concat();
            let resets = recorded.quantities().map(|of| format!("{}/reset", directory(of).unwrap()));
            let mut paths: Vec<String> = files.into_iter().map(|file| file.path).chain(resets).collect();
            paths.sort();
            paths
        };
        let mut expected =
            vec!["enable/missed_timer_offsets", "enable/preemptirqsoff", "enable/timerandwakeup"];
        expected.extend(["enable/wakeup", "missed_timer_offsets/pid", "wakeup/pid"]);
        let mut expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        for directory in ["missed_timer_offsets", "timerandwakeup", "wakeup", "wakeup/sharedprio"] {
            for file in ["CPU0", "CPU1", "max_latency-CPU0", "max_latency-CPU1", "reset"] {
                expected.push(format!("{directory}/{file}"));
            }
        }
        expected.sort();
        assert_eq!(paths(&recorded), expected);
        recorded.potential = vec![Quantity::Irqsoff];
        expected.extend(["CPU0", "CPU1", "reset"].map(|file| format!("irqsoff/{file}")));
        expected.sort();
        assert_eq!(paths(&recorded), expected);
        let on = File { path: "enable/preemptirqsoff".to_owned(), text: "1\n".to_owned() };
        assert!(recorded.settings().contains(&on));
    }
}
