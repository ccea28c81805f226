//! The last lines of the terminal summary: the model-free statement, the criteria, the written files.

use super::figures::quantities;
use super::text::Screen;
use crate::histogram::Spread;
use crate::printable::{hanging, wrap};
use crate::run::Run;
use crate::time::Ns;
use crate::verdict::Criterion;

/// Minimum lines of a screen for optional parts.
const ROOMY: usize = 50;

/// The model-free statement, the criteria and the rule of thumb.
pub(super) fn statistics(run: &Run, screen: &Screen) -> Vec<String> {
    let mut lines = Vec::new();
    let has_room = screen.lines == 0 || screen.lines >= ROOMY;
    lines.extend(spread(run).filter(|_| has_room).iter().flat_map(|text| wrap(text, screen.width)));
    if let Some(model_free) = run.verdict.as_ref().and_then(|v| v.model_free.as_ref()) {
        let text = format!("Model-free bound: {} {}", model_free.sentence, model_free.caveat());
        lines.extend(wrap(&text, screen.width));
    }
    let criteria = run.verdict.iter().flat_map(|verdict| &verdict.criteria);
    let criteria: Vec<String> = criteria.map(criterion).collect();
    if !criteria.is_empty() {
        lines.extend(hanging("OSADL's criteria: ", &criteria.join("; "), screen.width));
    }
    let no_verdict = run.verdict.as_ref().filter(|verdict| verdict.outcome.is_none());
    if let Some(rule) = no_verdict.and_then(|v| v.rule_of_thumb.as_ref()) {
        let met = if rule.met { "met" } else { "not met" };
        let text = format!("For orientation: {} gives {}: {met} ({})", rule.name, rule.bound_ns, rule.source);
        lines.extend(wrap(&text, screen.width));
    }
    lines
}

/// A limit of the idle states, and the written files.
pub(super) fn files(run: &Run, screen: &Screen) -> Vec<String> {
    let mut lines: Vec<String> = idle(run).iter().flat_map(|text| wrap(text, screen.width)).collect();
    lines.extend(paths(screen));
    lines
}

/// Text on the limit of idle states, if this tool set one.
fn idle(run: &Run) -> Vec<String> {
    let held = run.conditions.knobs.cpu_dma_latency_held_us;
    let held = held.map(|us| {
        format!("Idle states were limited for this run: /dev/cpu_dma_latency held at {us} µs; without this limit latencies may be higher.")
    });
    held.into_iter().chain(run.idle.iter().flat_map(crate::idle::IdleComparison::lines)).collect()
}

/// `Spread of cyclic latency: …` of all series of the main quantity; none if samples were lost, which may have any
/// value, or if the classes of the series differ.
fn spread(run: &Run) -> Option<String> {
    let quantity = *quantities(run).first()?;
    let mut all = run.of(quantity);
    let first = all.next()?;
    let mut sum = first.clone();
    all.try_for_each(|series| sum.add_samples(series).map_err(drop)).ok()?;
    let spread = Spread::of(&sum.histogram).filter(|_| sum.lost == 0 && sum.histogram.count() > 1)?;
    let share = 100.0 * spread.mode_count as f64 / sum.histogram.count() as f64;
    let (from, Ns(to)) = spread.mode_ns;
    Some(format!(
        "Spread of {} latency: standard deviation {}, mode {} to {} ({share:.1} % of the samples), median absolute deviation {}",
        quantity.name(),
        within(spread.sd_ns),
        from,
        Ns(to.saturating_add(1)),
        within(spread.mad_ns)
    ))
}

/// `61.2 µs ± 0.3 µs`: the middle of an interval and its half width, rounded up.
fn within((from, to): (f64, f64)) -> String {
    let middle = Ns(f64::midpoint(from, to).round() as u64);
    match (to - from) / 2.0 {
        off if off < 1.0 => middle.to_string(),
        off => format!("{middle} ± {}", Ns(off.ceil() as u64 + rounding(middle)).rounded_up()),
    }
}

/// Rounding error of a displayed duration.
fn rounding(middle: Ns) -> u64 {
    match middle.0 {
        0..=999 => 1,
        1_000..=99_999 => 50,
        100_000..=999_999_999 => 500,
        _ => 500_000,
    }
}

/// `long enough: no, 1.2e5 samples (1e9 samples)`; a met criterion is only named.
fn criterion(one: &Criterion) -> String {
    match one.met {
        Some(true) => format!("{}: yes", one.name),
        Some(false) => format!("{}: no, {} (wanted: {})", one.name, one.have, one.want),
        None => format!("{}: unknown, {} (wanted: {})", one.name, one.have, one.want),
    }
}

/// The files, on one line if they fit; never truncated, so that they can be copied.
fn paths(screen: &Screen) -> Vec<String> {
    let each: Vec<String> = screen.paths.iter().map(|(what, path)| format!("{what}: {path}")).collect();
    let together = each.join("   ");
    if together.chars().count() <= screen.width && !each.is_empty() {
        vec![together]
    } else {
        each
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::{Histogram, Layout};
    use crate::series::{Quantity, Series};

    #[test]
    fn the_spread_is_of_all_series_and_withheld_where_samples_were_lost() {
        let series = |us: &[u64]| {
            let mut histogram = Histogram::new(Layout::LATENCY);
            us.iter().for_each(|&us| histogram.record(Ns(us * 1_000 + 1)));
            Series::new(Quantity::Cyclic, None, histogram)
        };
        let mut run = Run::new(Default::default());
        run.series = vec![series(&[2]), series(&[8])];
        assert_eq!(
            spread(&run).unwrap(),
            "Spread of cyclic latency: standard deviation 3.0 µs, mode 2.0 µs to 3.0 µs (50.0 % of the samples), \
             median absolute deviation 3.0 µs"
        );
        run.series[1].lost = 1;
        assert_eq!(spread(&run), None);
        // Half a class on either side, and what rounding takes.
        assert_eq!(within((61_000.0, 62_000.0)), "61.5 µs ± 550 ns");
        assert_eq!(within((14_562_000.0, 14_562_200.0)), "14.562 ms ± 600 ns");
    }
}
