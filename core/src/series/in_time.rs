//! The maxima of a run in time order.

use std::collections::BTreeMap;

use super::Series;

/// Maxima of each stretch over all series of a run, in time order.
///
/// # Errors
/// If a series has no maxima, or if the stretches of two series differ in length.
pub fn maxima_in_time(series: &[&Series]) -> Result<Vec<f64>, &'static str> {
    let filled: Vec<&&Series> = series.iter().filter(|s| s.histogram.count() > 0).collect();
    if filled.iter().any(|s| s.seconds.is_empty()) {
        return Err("this run has a histogram without the maxima of its seconds");
    }
    let stretch = filled.first().map_or(1, |s| s.seconds_stretch).max(1);
    if filled.iter().any(|s| s.seconds_stretch != stretch) {
        return Err("the maxima of its CPUs are of stretches of different lengths");
    }
    let mut at: BTreeMap<u32, f64> = BTreeMap::new();
    for one in filled.iter().flat_map(|s| &s.seconds) {
        let max = at.entry(one.second / stretch).or_insert(0.0);
        *max = max.max(one.max_ns.0 as f64);
    }
    Ok(at.into_values().collect())
}
