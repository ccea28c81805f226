//! One line for each figure that `make bench` prints: what, how much, the goal, and whether it is met.
//!
//! A bench never fails because a figure misses its goal: on a busy machine that says little (docs/howto/bench.md).
#![allow(dead_code)] // each bench uses its part

/// Prints one figure beside its goal, which is a largest value.
pub fn at_most(what: &str, value: f64, unit: &str, goal: f64) {
    let judged = if value <= goal { "met" } else { "MISSED" };
    println!("{what:<58} {:>9} {unit:<12} goal ≤ {:<9} {judged}", shown(value), shown(goal));
}

/// Prints one figure beside its goal, which is a smallest value.
pub fn at_least(what: &str, value: f64, unit: &str, goal: f64) {
    let judged = if value >= goal { "met" } else { "MISSED" };
    println!("{what:<58} {:>9} {unit:<12} goal ≥ {:<9} {judged}", shown(value), shown(goal));
}

/// Prints one figure beside its goal, which it must stay below.
pub fn below(what: &str, value: f64, unit: &str, goal: f64) {
    let judged = if value < goal { "met" } else { "MISSED" };
    println!("{what:<58} {:>9} {unit:<12} goal < {:<9} {judged}", shown(value), shown(goal));
}

/// Prints a figure for orientation.
pub fn plain(what: &str, value: f64, unit: &str) {
    println!("{what:<58} {:>9} {unit}", shown(value));
}

/// Names a figure that cannot be measured here, and why.
pub fn skipped(what: &str, why: &str) {
    println!("{what:<58}   SKIPPED {why}");
}

/// Three significant digits at least, no more than three behind the point.
fn shown(value: f64) -> String {
    match value.abs() {
        small if small < 10.0 => format!("{value:.3}"),
        small if small < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The upper median; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Median of the ratios of values measured side by side, in the same order.
pub fn median_ratio(ours: &[f64], theirs: &[f64]) -> f64 {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    median(&ratios)
}

/// The number of rounds that the user wants: `cargo bench … -- ROUNDS`.
pub fn rounds(usual: usize) -> usize {
    std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(usual)
}
