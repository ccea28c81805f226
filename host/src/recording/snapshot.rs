//! Results of a window.

use lathunt_core::application::Task;
use lathunt_core::export::latency_hist;
use lathunt_core::peak::Peak;
use lathunt_core::run::{Interference, Loss};
use lathunt_core::series::Series;
use lathunt_core::time::Mono;

/// Results of one window.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Start of the window.
    pub begin: Mono,
    /// Time of reading.
    pub end: Mono,
    /// Per CPU, those with samples. Count, bins, sum and maximum are exact; so is the minimum, unless activations
    /// were lost.
    pub series: Vec<Series>,
    /// For the files of the old latency histograms, if requested: series, and the worst of each.
    pub old_files: (Vec<Series>, Vec<latency_hist::Worst>),
    /// Each active thread, the one with the largest latency first.
    pub tasks: Vec<Task>,
    /// Context of the maximum of each of `series`, if known.
    pub maxima: Vec<Peak>,
    /// The same for the `timer+wakeup` and the `wakeup` of each of `tasks`.
    pub of_tasks: Vec<Peak>,
    /// The worst wake-ups of all CPUs, worst first.
    pub peaks: Vec<Peak>,
    /// Their flight records (`flight.bin`).
    pub flight: Vec<u8>,
    /// Time taken from threads since the recording began, the largest total first.
    pub interference: Vec<Interference>,
    /// Losses since the recording began.
    pub losses: Vec<Loss>,
}
