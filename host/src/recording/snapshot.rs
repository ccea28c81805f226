//! What a recording shows of a window.

use lathunt_core::application::Task;
use lathunt_core::export::latency_hist;
use lathunt_core::peak::Peak;
use lathunt_core::run::{Interference, Loss};
use lathunt_core::series::Series;
use lathunt_core::time::Mono;

/// What one window holds.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When the window began.
    pub begin: Mono,
    /// When it was read.
    pub end: Mono,
    /// Of each CPU, those with samples. Count, bins, sum and maximum are exact; so is the minimum, unless activations
    /// were lost.
    pub series: Vec<Series>,
    /// What the files of the old latency histograms show, if they were asked for: series, and the worst of each.
    pub old_files: (Vec<Series>, Vec<latency_hist::Worst>),
    /// Each thread that did something, the one with the largest latency first.
    pub tasks: Vec<Task>,
    /// What is known of the maximum of each of `series`, where anything is.
    pub maxima: Vec<Peak>,
    /// The same of the `timer+wakeup` and the `wakeup` of each of `tasks`.
    pub of_tasks: Vec<Peak>,
    /// The worst wake-ups of all CPUs, worst first.
    pub peaks: Vec<Peak>,
    /// Their flight records (`flight.bin`).
    pub flight: Vec<u8>,
    /// Who took time from threads since the recording began, the largest total first.
    pub interference: Vec<Interference>,
    /// What was lost since the recording began.
    pub losses: Vec<Loss>,
}
