//! Text output of `isolate verify`.

use std::fmt::Write as _;

use super::{Class, Latency, Level, Verdict, Watched};
use crate::cpuset::CpuSet;
use crate::numbers::grouped;
use crate::printable;
use crate::time::Ns;

impl Watched {
    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}  CPU {}: {} interrupts that can be kept away came, and {} foreign threads; the rest is below\n\
             Watched for {:.1} s, load: {}\n\n",
            match self.verdict() {
                Verdict::Isolated => "ISOLATED",
                Verdict::NotIsolated => "NOT ISOLATED",
                Verdict::Inconclusive => "INCONCLUSIVE",
            },
            self.cpus,
            grouped(self.movable()),
            self.foreign.len(),
            self.seconds,
            printable::line(&self.load)
        );
        self.table(&mut text);
        text.push('\n');
        for finding in self.findings() {
            let count = finding.count.map_or(String::new(), grouped);
            let mark = match finding.level {
                Level::Quiet => "ok",
                Level::Noise => "noise",
                Level::Broken => "BROKEN",
            };
            let _ = writeln!(text, "{mark:<7}{:>10}  {}", count, printable::line(&finding.cause)); // to a String, as all here
            for (sign, more) in [("", &finding.because), ("→ ", &finding.remedy)] {
                if !more.is_empty() {
                    let _ = writeln!(text, "{:19}{sign}{}", "", printable::line(more));
                }
            }
        }
        self.gaps_text(&mut text);
        self.latency_text(&mut text);
        self.notes.iter().for_each(|note| {
            let _ = writeln!(text, "note: {}", printable::line(note));
        });
        text
    }

    /// Classes down, CPUs across; more CPUs than fit are summed up.
    fn table(&self, text: &mut String) {
        let all: CpuSet = self.came.iter().flat_map(|line| line.counts.keys().copied()).collect();
        let mut columns: Vec<(String, CpuSet)> = Vec::new();
        let others = all.minus(&self.cpus);
        for (set, mark) in [(&self.cpus, " isolated"), (&others, "")] {
            match set.len() {
                0 => {}
                1..=4 => columns
                    .extend(set.iter().map(|cpu| (format!("CPU {cpu}{mark}"), CpuSet::from_iter([cpu])))),
                _ => columns.push((format!("CPU {set}{mark}"), set.clone())),
            }
        }
        let _ = write!(text, "{:<16}", "came");
        columns.iter().for_each(|(name, _)| {
            let _ = write!(text, "{name:>18}");
        });
        let _ = writeln!(text, "{:>14}", "isolated, /s");
        for class in Class::ALL {
            let _ = write!(text, "{:<16}", class.name());
            for (_, set) in &columns {
                let lines = self.came.iter().filter(|line| line.class == class);
                let counts = lines.flat_map(|line| &line.counts).filter(|(cpu, _)| set.contains(**cpu));
                let _ = write!(text, "{:>18}", grouped(counts.map(|(_, count)| count).sum()));
            }
            let _ = writeln!(text, "{:>14.1}", self.sum(class) as f64 / self.seconds.max(1e-9));
        }
    }

    /// Whether the isolated CPU has a higher median and is idle more than the other one.
    fn sleeps_more(&self) -> bool {
        let (Some(other), Some(isolated)) = (self.before.or(self.beside), self.after) else { return false };
        let slept = other.idle.zip(isolated.idle).is_some_and(|(other, isolated)| isolated > other + 0.25);
        slept && isolated.median_ns > other.median_ns
    }

    fn gaps_text(&self, text: &mut String) {
        if self.cut_short {
            text.push_str("\nA busy loop should have run there; it ended early.\n");
        }
        let Some(gaps) = &self.gaps else {
            text.push_str(
                "\nNo busy loop ran there: disturbances of a busy CPU were not measured (see the notes).\n",
            );
            return;
        };
        match gaps.first() {
            None => text.push_str("\nA busy loop ran there without a gap above its threshold.\n"),
            Some(_) => text.push_str("\nGaps of a busy loop\n"),
        }
        for gap in gaps.iter().take(5) {
            let (length, reasons) = (gap.gap_ns.to_string(), printable::line(&gap.reasons));
            let _ = writeln!(text, "  CPU {:<3}{length:>11}  {}: {reasons}", gap.cpu, gap.cause);
        }
    }

    fn latency_text(&self, text: &mut String) {
        let rows = [("before", &self.before), ("other CPUs", &self.beside), ("isolated", &self.after)];
        if rows.iter().all(|(_, latency)| latency.is_none()) {
            return;
        }
        let stolen = |latency: &Latency| latency.stolen_ns.filter(|time| *time > Ns::ZERO);
        let is_stolen = rows.iter().any(|(_, latency)| latency.as_ref().and_then(stolen).is_some());
        let last = if is_stolen { "stolen" } else { "" };
        let header = format!(
            "{:<16}{:>10}{:>12}{:>12}{:>12}{:>8}{last:>12}",
            "cyclic latency", "samples", "median", "p99.9", "max", "idle"
        );
        let _ = writeln!(text, "\n{}", header.trim_end());
        for (name, latency) in rows {
            let Some(latency) = latency else { continue };
            let mut cells =
                [latency.median_ns, latency.p999_ns, latency.max_ns].map(|ns| ns.to_string()).to_vec();
            let idle = latency.idle.map_or("-".to_owned(), |share| format!("{:.0} %", 100.0 * share));
            cells.extend(is_stolen.then(|| stolen(latency).map_or("-".to_owned(), |time| time.to_string())));
            let mut cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>12}")).collect();
            cells.insert(3, format!("{idle:>8}"));
            let _ = writeln!(text, "{name:<16}{:>10}{}", grouped(latency.samples), cells.concat());
        }
        if self.sleeps_more() {
            text.push_str(
                "idle: alone on its CPU, the thread finds it asleep at each activation and waits until it is awake:\n      \
                 that is the higher median; `--idle-latency 0` or idle=poll keep it awake\n",
            );
        }
        if is_stolen {
            text.push_str("stolen: the host did not run these CPUs for so long; such rows do not compare\n");
        }
    }
}
