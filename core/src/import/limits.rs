//! What an imported file does not say of a thread.

use super::FromFile;
use crate::series::Series;

/// Limitations of a thread's data.
pub(super) fn notes(series: &Series, thread: &FromFile) -> Vec<String> {
    let mut notes = Vec::new();
    let label = series.label();
    if thread.more_runs > 0 {
        let runs = thread.more_runs + 1;
        notes.push(format!(
            "{label}: the imported file has {runs} runs one after the other; they are added up"
        ));
    }
    if series.histogram.count() == 0 && series.lost == 0 {
        notes.push(format!("{label}: no sample of this thread is in the imported file"));
    }
    if series.lost > 0 {
        let what = match thread.is_bounded() {
            true => "only that none is above the maximum",
            false => "nor is their maximum: the largest latency is that of the other samples",
        };
        let lost = series.lost;
        notes.push(format!("{label}: the values of {lost} samples are not in the imported file, {what}"));
    }
    notes
}
