//! The metrics that a monitor exports. Names, labels and meaning are an interface: docs/howto/fleet.md lists them.
//!
//! Rules: label sets are bounded (CPUs, kinds, classes, and a limited number of task names); victim and culprit are
//! exemplars, never labels. Maxima are of completed windows and change with the clock, never with a scrape: two servers
//! get the same. Unknown values are absent, not 0.

mod totals;

pub use totals::{Interrupts, Totals};

use std::collections::BTreeMap;

use super::exceedance::{Exceedances, Limit, CONFIDENCE};
use super::history::Alltime;
use super::metric::{Exemplar, Family, Kind, Label, Latencies, Sample, Value};
use super::responses::Responses;
use super::window::{SeriesKey, UnixMs, Whose, Window, WindowSeries};
use crate::histogram::Histogram;
use crate::series::Quantity;
use crate::time::{Cpu, Ns};

/// Maximum number of exemplars per series: one for each classic bucket and some more.
const EXEMPLARS: usize = 32;

/// State that changes when a window is closed.
#[derive(Clone, Debug)]
pub struct Published {
    version: String,
    window: Ns,
    last: Option<(UnixMs, BTreeMap<SeriesKey, Ns>)>,
    exemplars: BTreeMap<SeriesKey, Vec<Exemplar>>,
    tasks: BTreeMap<SeriesKey, Histogram>,
    responses: Responses,
    exceedances: Exceedances,
    limits: Vec<Limit>,
    alltime: BTreeMap<SeriesKey, (Ns, UnixMs)>,
    closed: u64,
    waiting: u64,
    given_up: u64,
}

impl Published {
    /// Without a window. `alltime` and `exceedances`: from the database.
    #[must_use]
    pub fn new(version: &str, window: Ns, alltime: &[Alltime], exceedances: Exceedances) -> Published {
        Published {
            version: version.to_owned(),
            window,
            last: None,
            exemplars: BTreeMap::new(),
            tasks: BTreeMap::new(),
            responses: Responses::default(),
            limits: exceedances.limits(),
            exceedances,
            alltime: alltime
                .iter()
                .filter(|worst| worst.key.whose.cpu().is_some())
                .map(|worst| (worst.key, (worst.max_ns, worst.at)))
                .collect(),
            closed: 0,
            waiting: 0,
            given_up: 0,
        }
    }

    /// Adds a closed window.
    pub fn closed(&mut self, window: &Window) {
        self.closed += 1;
        self.responses.closed(&window.series);
        self.exceedances.closed(window.end, &window.series);
        self.limits = self.exceedances.limits();
        let mut maxima = BTreeMap::new();
        for series in &window.series {
            let Some(max) = series.histogram.max() else { continue };
            maxima.insert(series.key, max);
            let at = series.peak_at.unwrap_or(window.end);
            self.add_up(series, max, at);
            if let Some(peak) = &series.peak {
                let culprit = peak.culprit.clone().unwrap_or_else(|| "unknown".to_owned());
                let labels = vec![("culprit", culprit), ("victim", peak.victim.comm.clone())];
                let kept = self.exemplars.entry(series.key).or_default();
                kept.push(Exemplar::new(labels, max.as_secs(), at.as_secs()));
                let spare = kept.len().saturating_sub(EXEMPLARS);
                kept.drain(..spare);
            }
        }
        self.last = Some((window.end, maxima));
    }

    /// Updates the figures over all windows: the maximum of each CPU, and the histograms of tasks.
    fn add_up(&mut self, series: &WindowSeries, max: Ns, at: UnixMs) {
        if series.key.quantity == Quantity::Response {
            return;
        }
        if series.key.whose.cpu().is_none() {
            let empty = || Histogram::new(series.histogram.layout());
            // All tasks have the same layout; another one would not be added.
            let _ = self.tasks.entry(series.key).or_insert_with(empty).merge(&series.histogram);
            return;
        }
        let worst = self.alltime.entry(series.key).or_insert((max, at));
        if max > worst.0 {
            *worst = (max, at);
        }
    }

    /// Activations of unknown tasks were lost in the window that ends at `end`. Must be called before
    /// [`Published::closed`].
    pub fn activations_lost(&mut self, end: UnixMs) {
        self.exceedances.incomplete(end);
    }

    /// Sets the numbers of windows that wait for disk space, and that were dropped.
    pub fn stored(&mut self, waiting: usize, given_up: u64) {
        (self.waiting, self.given_up) = (waiting as u64, given_up);
    }

    /// All metrics at this time.
    #[must_use]
    pub fn families(&self, totals: &Totals) -> Vec<Family> {
        let mut families = self.latencies(totals);
        families.extend(self.maxima());
        families.extend(self.of_tasks());
        families.extend(self.of_jobs());
        families.push(self.exceeded());
        families.extend(totals::counters(totals));
        families.extend(self.own(totals));
        families.retain(|family| !family.samples.is_empty());
        families
    }

    fn latencies(&self, totals: &Totals) -> Vec<Family> {
        let sample = |(key, histogram, _): &(SeriesKey, Histogram, u64)| self.histogram(*key, histogram);
        let mut missed: BTreeMap<Cpu, u64> = BTreeMap::new();
        for (key, _, lost) in &totals.series {
            let Some(cpu) = key.whose.cpu() else { continue };
            let most = missed.entry(cpu).or_default();
            *most = (*most).max(*lost);
        }
        vec![
            Family {
                name: "lathunt_wakeup_latency_seconds",
                help: "Latency of real-time tasks since the monitor began: kind timer is programmed expiry to handler, \
                       wakeup is waking to switched in, timer+wakeup is expiry to switched in, sharedprio is waking to \
                       switched in behind a task of the same priority, which is in none of the others.",
                kind: Kind::Histogram,
                samples: totals.series.iter().map(sample).collect(),
            },
            Family {
                name: "lathunt_missed",
                help: "Wake-ups that are known to be missing in the histograms of the CPU.",
                kind: Kind::Counter,
                samples: missed.into_iter().map(|(cpu, lost)| number(vec![of_cpu(cpu)], lost as f64)).collect(),
            },
        ]
    }

    fn maxima(&self) -> Vec<Family> {
        let window = || ("window", duration(self.window));
        let of_window =
            |(key, max): (&SeriesKey, &Ns)| number([of_series(*key), vec![window()]].concat(), max.as_secs());
        let of_cpus = |(key, _): &(&SeriesKey, &Ns)| key.whose.cpu().is_some();
        let alltime = |value: &dyn Fn(Ns, UnixMs) -> f64| -> Vec<Sample> {
            self.alltime.iter().map(|(key, &(max, at))| number(of_series(*key), value(max, at))).collect()
        };
        vec![
            Family {
                name: "lathunt_latency_max_seconds",
                help: "Exact maximum of the last completed window; it changes when a window is closed, never by a scrape.",
                kind: Kind::Gauge,
                samples: self
                    .last
                    .iter()
                    .flat_map(|(_, maxima)| maxima.iter().filter(of_cpus))
                    .map(of_window)
                    .collect(),
            },
            Family {
                name: "lathunt_window_end_timestamp_seconds",
                help: "End of the last completed window, Unix time.",
                kind: Kind::Gauge,
                samples: self.last.iter().map(|(end, _)| number(vec![window()], end.as_secs())).collect(),
            },
            Family {
                name: "lathunt_latency_max_alltime_seconds",
                help: "Exact maximum of all completed windows since the database was begun.",
                kind: Kind::Gauge,
                samples: alltime(&|max, _| max.as_secs()),
            },
            Family {
                name: "lathunt_latency_max_alltime_timestamp_seconds",
                help: "When that maximum was, Unix time.",
                kind: Kind::Gauge,
                samples: alltime(&|_, at| at.as_secs()),
            },
        ]
    }

    /// Metrics of tasks; only completed windows, because they are not added up in the kernel.
    fn of_tasks(&self) -> Vec<Family> {
        let maxima = self.last.iter().flat_map(|(_, maxima)| maxima.iter());
        let of_tasks =
            maxima.filter(|(key, _)| key.whose.task().is_some() && key.quantity != Quantity::Response);
        let window = |key: SeriesKey| [of_series(key), vec![("window", duration(self.window))]].concat();
        vec![
            Family {
                name: "lathunt_task_latency_seconds",
                help: "Latency of the tasks of one name in all completed windows; names beyond the limit are (others).",
                kind: Kind::Histogram,
                samples: self.tasks.iter().map(|(key, histogram)| self.histogram(*key, histogram)).collect(),
            },
            Family {
                name: "lathunt_task_latency_max_seconds",
                help: "Exact maximum of the tasks of one name in the last completed window.",
                kind: Kind::Gauge,
                samples: of_tasks.map(|(key, max)| number(window(*key), max.as_secs())).collect(),
            },
        ]
    }

    fn of_jobs(&self) -> Vec<Family> {
        let exemplars = |name| {
            let key = SeriesKey::of_task(Quantity::Response, name);
            self.exemplars.get(&key).cloned().unwrap_or_default()
        };
        self.responses.families(&duration(self.window), exemplars)
    }

    fn exceeded(&self) -> Family {
        let sample = |limit: &Limit| {
            let of_limit = vec![
                ("deadline", limit.deadline_ns.as_secs().to_string()),
                ("span", duration(self.exceedances.span())),
                ("confidence", CONFIDENCE.to_string()),
            ];
            number([of_series(limit.key), of_limit].concat(), limit.probability_upper)
        };
        Family {
            name: "lathunt_exceedance_probability_upper",
            help: "Upper limit of the probability that an activation is later than its deadline, by the completed windows of \
                   the span; late ones that come together count once where ten windows have some, else it holds if they come \
                   independently; lost ones count as late. Kind response: jobs.",
            kind: Kind::Gauge,
            samples: self.limits.iter().map(sample).collect(),
        }
    }

    fn histogram(&self, key: SeriesKey, histogram: &Histogram) -> Sample {
        let exemplars = self.exemplars.get(&key).cloned().unwrap_or_default();
        let latencies = Latencies { histogram: histogram.clone(), exemplars };
        Sample { labels: of_series(key), value: Value::Latencies(Box::new(latencies)) }
    }

    fn own(&self, totals: &Totals) -> Vec<Family> {
        let one =
            |name, help, kind, value: f64| Family { name, help, kind, samples: vec![number(vec![], value)] };
        let mut families = vec![
            Family {
                name: "lathunt_build_info",
                help: "Version of the monitor; the value is always 1.",
                kind: Kind::Gauge,
                samples: vec![number(vec![("version", self.version.clone())], 1.0)],
            },
            one("lathunt_windows", "Windows closed.", Kind::Counter, self.closed as f64),
            one(
                "lathunt_windows_lost",
                "Windows that could not be written in time (full disk) and were given up.",
                Kind::Counter,
                self.given_up as f64,
            ),
            one(
                "lathunt_windows_waiting",
                "Windows that wait in memory for room on the disk.",
                Kind::Gauge,
                self.waiting as f64,
            ),
            one(
                "process_cpu_seconds",
                "CPU time of the monitor, user and system.",
                Kind::Counter,
                totals.own_cpu.as_secs(),
            ),
        ];
        families.extend(totals.own_memory.map(|bytes| {
            let help = "Memory of the monitor that is resident.";
            one("process_resident_memory_bytes", help, Kind::Gauge, bytes as f64)
        }));
        families
    }
}

fn number(labels: Vec<Label>, value: f64) -> Sample {
    Sample { labels, value: Value::Number(value) }
}

fn of_cpu(cpu: Cpu) -> Label {
    ("cpu", cpu.to_string())
}

fn of_series(key: SeriesKey) -> Vec<Label> {
    let whose = match key.whose {
        Whose::Cpu(cpu) => of_cpu(cpu),
        Whose::Task(name) => ("task", name.label()),
    };
    vec![whose, ("kind", key.quantity.name().to_owned())]
}

/// As Prometheus writes durations: `5m`, `90s`, `500ms`.
#[must_use]
pub fn duration(length: Ns) -> String {
    let ms = length.0 / 1_000_000;
    match ms {
        _ if ms.is_multiple_of(3_600_000) => format!("{}h", ms / 3_600_000),
        _ if ms.is_multiple_of(60_000) => format!("{}m", ms / 60_000),
        _ if ms.is_multiple_of(1_000) => format!("{}s", ms / 1_000),
        _ => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests;
