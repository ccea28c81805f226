//! Metrics of jobs: response times of tasks with a deadline, and number of misses.
//!
//! Only completed windows, as all figures of tasks. Labels are task names, limited in number by the source.

use std::collections::BTreeMap;

use super::metric::{Exemplar, Family, Kind, Label, Latencies, Sample, Value};
use super::window::{Held, WindowSeries};
use crate::comm::Comm;
use crate::histogram::Histogram;
use crate::series::Quantity;
use crate::time::Ns;

/// The jobs of the tasks of one name.
#[derive(Clone, Debug)]
struct Jobs {
    histogram: Histogram,
    held: Held,
    /// Maximum of the last completed window, if it had a job.
    max: Option<Ns>,
}

/// All tasks with a deadline.
#[derive(Clone, Debug, Default)]
pub(super) struct Responses(BTreeMap<Comm, Jobs>);

impl Responses {
    /// Adds a closed window.
    pub fn closed(&mut self, window: &[WindowSeries]) {
        self.0.values_mut().for_each(|jobs| jobs.max = None);
        for series in window.iter().filter(|series| series.key.quantity == Quantity::Response) {
            let Some((name, held)) = series.key.whose.task().zip(series.held) else { continue };
            let fresh = || Jobs {
                histogram: Histogram::new(series.histogram.layout()),
                held: Held { misses: 0, ..held },
                max: None,
            };
            let jobs = self.0.entry(name).or_insert_with(fresh);
            // All have the same width, so that the sum fails only if it overflows.
            let _ = jobs.histogram.merge(&series.histogram);
            jobs.held =
                Held { deadline: held.deadline, misses: jobs.held.misses.saturating_add(held.misses) };
            jobs.max = series.histogram.max();
        }
    }

    /// The metrics. `window`: its length as a label; `exemplars`: those of a task.
    pub fn families(&self, window: &str, exemplars: impl Fn(Comm) -> Vec<Exemplar>) -> Vec<Family> {
        let of = |name: &Comm| -> Vec<Label> { vec![("task", name.text())] };
        let number = |labels, value| Sample { labels, value: Value::Number(value) };
        let histogram = |(name, jobs): (&Comm, &Jobs)| {
            let latencies = Latencies { histogram: jobs.histogram.clone(), exemplars: exemplars(*name) };
            Sample { labels: of(name), value: Value::Latencies(Box::new(latencies)) }
        };
        let all = || self.0.iter();
        let maxima = all().filter_map(|(name, jobs)| Some((name, jobs.max?)));
        let of_window = |name: &Comm| [of(name), vec![("window", window.to_owned())]].concat();
        vec![
            Family {
                name: "lathunt_response_seconds",
                help: "Response time of the jobs of the tasks of one name, from their release to the next wait for one, in all \
                       completed windows; tasks with a deadline only.",
                kind: Kind::Histogram,
                samples: all().map(histogram).collect(),
            },
            Family {
                name: "lathunt_response_max_seconds",
                help: "Exact maximum of these in the last completed window.",
                kind: Kind::Gauge,
                samples: maxima.map(|(name, max)| number(of_window(name), max.as_secs())).collect(),
            },
            Family {
                name: "lathunt_deadline_seconds",
                help: "The deadline of the jobs of the tasks of one name; where it is their period, the shortest.",
                kind: Kind::Gauge,
                samples: all().map(|(name, jobs)| number(of(name), jobs.held.deadline.as_secs())).collect(),
            },
            Family {
                name: "lathunt_deadline_misses",
                help: "Jobs of the tasks of one name that were over after their deadline, in all completed windows.",
                kind: Kind::Counter,
                samples: all().map(|(name, jobs)| number(of(name), jobs.held.misses as f64)).collect(),
            },
        ]
    }
}
