//! Labels of the series of several runs: the tid of a thread differs between runs, so its name identifies it.

use std::collections::BTreeSet;

use super::Series;

/// The labels of the series of one quantity in several runs.
#[derive(Debug)]
pub struct Labels<'r> {
    /// Names shared by two threads of one run: only their tids distinguish them.
    ambiguous: BTreeSet<&'r str>,
    all: Vec<String>,
}

impl<'r> Labels<'r> {
    /// Labels of the series of each run.
    #[must_use]
    pub fn of(runs: &[Vec<&'r Series>]) -> Labels<'r> {
        let mut labels = Labels { ambiguous: BTreeSet::new(), all: Vec::new() };
        for run in runs {
            let mut seen = BTreeSet::new();
            let names = run.iter().filter_map(|series| thread_name(series));
            labels.ambiguous.extend(names.filter(|name| !seen.insert(*name)));
        }
        for series in runs.iter().flatten() {
            let label = labels.label(series);
            if !labels.all.contains(&label) {
                labels.all.push(label);
            }
        }
        labels
    }

    /// All labels, in the order of the series.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.all
    }

    /// The series of a run with this label: several where threads share a CPU.
    #[must_use]
    pub fn of_label<'s>(&self, label: &str, run: &[&'s Series]) -> Vec<&'s Series> {
        run.iter().filter(|series| self.label(series) == label).copied().collect()
    }

    /// `CPU 1`, `comm`, `comm/tid`, or a channel.
    fn label(&self, series: &Series) -> String {
        match thread_name(series) {
            Some(name) if !name.is_empty() && !self.ambiguous.contains(name) => name.to_owned(),
            _ => series.label(),
        }
    }
}

/// Name of the thread, if the series is not of one CPU.
fn thread_name(series: &Series) -> Option<&str> {
    series.thread.as_ref().filter(|_| series.cpu.is_none()).map(|thread| thread.comm.as_str())
}
