//! Causes over all peaks: nothing counts twice, nothing is lost.

mod example;

use lathunt_core::report::causes::{rank, stalls};
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;

#[test]
fn the_times_of_all_causes_add_up_to_all_explained_peaks() {
    let peaks = example::run(3, 500).peaks;
    let explained: Ns = peaks.iter().filter(|p| p.explanation.is_some()).map(|p| p.total_ns).sum();
    assert_eq!(rank(&peaks).iter().map(|cause| cause.time_ns).sum::<Ns>(), explained);
}

#[test]
fn one_stall_seen_by_several_quantities_counts_once() {
    let peaks = example::run(2, 500).peaks;
    let mut seen_twice = peaks.clone();
    for peak in &peaks {
        let mut shorter = peak.clone();
        shorter.quantity = Quantity::Wakeup;
        shorter.total_ns = Ns(peak.total_ns.0 / 2);
        seen_twice.push(shorter);
    }
    assert_eq!(rank(&seen_twice), rank(&peaks));
    assert!(stalls(&seen_twice).iter().all(|stall| stall.also.len() == 1));
}

#[test]
fn an_explained_peak_is_not_hidden_under_a_longer_unexplained_one() {
    let mut peaks = example::run(1, 500).peaks;
    peaks.truncate(1);
    let mut longer = peaks[0].clone();
    longer.total_ns = longer.total_ns + Ns(1_000);
    longer.explanation = None;
    peaks.push(longer);
    assert_eq!(stalls(&peaks).len(), 2);
    assert!(!rank(&peaks).is_empty());
}

#[test]
fn a_potential_latency_is_no_case_and_hides_none() {
    let peaks = example::run(1, 500).peaks;
    let mut with = peaks.clone();
    let mut potential = peaks[0].clone();
    potential.quantity = Quantity::Preemptoff;
    potential.total_ns = Ns(potential.total_ns.0 * 2);
    potential.explanation = None;
    with.push(potential);
    assert_eq!((stalls(&with), rank(&with)), (stalls(&peaks), rank(&peaks)));
}
