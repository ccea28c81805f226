//! Axes: positions of values, and ticks.

use crate::monitor::window::UnixMs;

/// Linear or logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Equal lengths are equal differences.
    Linear,
    /// Equal lengths are equal ratios.
    Log,
    /// Linear in milliseconds since the epoch, with ticks at round UTC times.
    Time,
}

/// Maps `lo..=hi` to `from..=to` (user units of the SVG). `lo < hi`; on a log scale `lo > 0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Linear or logarithmic.
    pub kind: Kind,
    /// Smallest value shown.
    pub lo: f64,
    /// Largest value shown.
    pub hi: f64,
    /// Position of `lo`.
    pub from: f64,
    /// Position of `hi`.
    pub to: f64,
}

impl Scale {
    /// Linear from 0 to the first round tick at or above `max`.
    #[must_use]
    pub fn linear(max: f64, from: f64, to: f64) -> Scale {
        let max = if max.is_finite() && max > 0.0 { max } else { 1.0 };
        let step = nice_step(max / 8.0);
        let hi = (max / step).ceil() * step;
        Scale { kind: Kind::Linear, lo: 0.0, hi, from, to }
    }

    /// Logarithmic from the decade at or below `min` to the first of 1, 2, 5 × 10ⁿ at or above `max`.
    #[must_use]
    pub fn log(min: f64, max: f64, from: f64, to: f64) -> Scale {
        let min = if min.is_finite() && min > 0.0 { min } else { 1.0 };
        let lo = 10f64.powf(min.log10().floor());
        let hi = if max.is_finite() && max > lo { max } else { lo * 10.0 };
        let decade = 10f64.powf(hi.log10().floor());
        let hi = [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter().find(|&edge| edge >= hi).unwrap_or(hi);
        Scale { kind: Kind::Log, lo, hi: if hi > lo { hi } else { lo * 10.0 }, from, to }
    }

    /// Position of `value`; values outside the range are at its edge.
    #[must_use]
    pub fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.lo, self.hi);
        let share = match self.kind {
            Kind::Linear | Kind::Time => (value - self.lo) / (self.hi - self.lo),
            Kind::Log => (value / self.lo).ln() / (self.hi / self.lo).ln(),
        };
        self.from + share * (self.to - self.from)
    }

    /// Round values for labels, ascending, all inside the range.
    #[must_use]
    pub fn ticks(&self) -> Vec<f64> {
        match self.kind {
            Kind::Linear => {
                let step = nice_step((self.hi - self.lo) / 8.0);
                let first = (self.lo / step).ceil();
                let count = ((self.hi - self.lo) / step + 1e-9).floor() as usize;
                (0..=count.min(100)).map(|i| (first + i as f64) * step).collect()
            }
            Kind::Log => self.log_ticks(),
            Kind::Time => {
                let step = time_step(self.hi - self.lo);
                let (first, last) = ((self.lo / step).ceil() as i64, (self.hi / step).floor() as i64);
                (first..=last).take(100).map(|nth| nth as f64 * step).collect()
            }
        }
    }

    /// The label of the tick at `value`.
    #[must_use]
    pub fn label(&self, value: f64) -> String {
        match self.kind {
            Kind::Time => time_label(value),
            Kind::Linear | Kind::Log => tick_label(value),
        }
    }

    fn log_ticks(&self) -> Vec<f64> {
        let first = self.lo.log10().floor() as i32;
        let last = self.hi.log10().ceil() as i32;
        let marks: &[f64] = if last - first <= 3 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        (first..=last)
            .flat_map(|n| marks.iter().map(move |m| m * 10f64.powi(n)))
            .filter(|v| (self.lo * 0.999..=self.hi * 1.001).contains(v))
            .collect()
    }
}

/// Steps of clock and calendar, seconds; the same as in the script of the page.
const TIME_STEPS: [f64; 19] = [
    1.0,
    2.0,
    5.0,
    10.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    1_800.0,
    3_600.0,
    7_200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    604_800.0,
    2_592_000.0,
];

/// The smallest step, ms, of which at most eight fit into `span_ms`.
fn time_step(span_ms: f64) -> f64 {
    let fits = |step: &f64| step * 8_000.0 >= span_ms;
    match TIME_STEPS.into_iter().find(fits) {
        Some(step) => step * 1e3,
        None => nice_step(span_ms / 8.0 / 86_400e3) * 86_400e3,
    }
}

/// `07:30`, with seconds if they are not 0; the date at midnight, `11-26`.
fn time_label(ms: f64) -> String {
    let text = UnixMs(ms as i64).to_string();
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or(&text).to_owned();
    match (ms as i64).rem_euclid(86_400_000) {
        0 => part(5, 10),
        of_day if of_day % 60_000 == 0 => part(11, 16),
        _ => part(11, 19),
    }
}

/// The first of 1, 2, 5 × 10ⁿ at or above `raw`.
fn nice_step(raw: f64) -> f64 {
    let decade = 10f64.powf(raw.log10().floor());
    [1.0, 2.0, 5.0].map(|m| m * decade).into_iter().find(|&s| s >= raw * 0.999).unwrap_or(10.0 * decade)
}

/// The number of a tick: no unnecessary zeros, thousands grouped.
#[must_use]
pub fn tick_label(value: f64) -> String {
    let text = if value == 0.0 {
        "0".to_owned()
    } else if value.abs() < 1e-3 {
        format!("{value:.1e}").replace(".0e", "e")
    } else if value.abs() < 1.0 {
        format!("{value:.3}")
    } else {
        format!("{value:.1}")
    };
    let text = if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        &text
    };
    match text.parse::<u64>() {
        Ok(whole) => crate::numbers::grouped(whole),
        Err(_) => text.to_owned(),
    }
}

/// A count: `1`, `100`, `10k`, `1M`, `1G`, `1T`.
#[must_use]
pub fn count_label(value: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{}{unit}", tick_label(value / size)),
        None => tick_label(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_value_is_always_inside() {
        for max in [0.0, 0.5, 1.0, 43.1, 99.9, 100.0, 8_525.1, 1e7, f64::NAN] {
            for scale in [Scale::linear(max, 0.0, 800.0), Scale::log(1.0, max, 0.0, 800.0)] {
                assert!(max.is_nan() || scale.hi >= max, "{max} beyond {scale:?}");
                let ticks = scale.ticks();
                assert!((2..=14).contains(&ticks.len()), "{max}: {ticks:?}");
                assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(ticks.iter().all(|&t| (0.0..=800.0).contains(&scale.at(t))));
            }
        }
    }

    #[test]
    fn places_are_where_the_eye_expects_them() {
        let linear = Scale::linear(80.0, 100.0, 900.0);
        assert_eq!((linear.at(0.0), linear.at(40.0), linear.at(80.0)), (100.0, 500.0, 900.0));
        let log = Scale::log(1.0, 100.0, 0.0, 200.0);
        assert!((log.at(10.0) - 100.0).abs() < 1e-9);
        assert_eq!(log.at(0.0), 0.0);
    }

    #[test]
    fn clock_times_get_round_ticks_and_midnight_is_named_by_its_day() {
        let day = 1_795_651_200_000.0; // 2026-11-26T00:00:00Z by `date -d`
        let ticks = |lo: f64, hi: f64| {
            let scale = Scale { kind: Kind::Time, lo, hi, from: 0.0, to: 800.0 };
            scale.ticks().into_iter().map(|tick| scale.label(tick)).collect::<Vec<_>>()
        };
        let hours = |from: f64, to: f64| ticks(day + from * 3_600e3, day + to * 3_600e3);
        assert_eq!(hours(-7.5, 10.0), ["18:00", "21:00", "11-26", "03:00", "06:00", "09:00"]);
        assert_eq!(
            hours(8.0, 8.0 + 12.0 / 3_600.0),
            ["08:00", "08:00:02", "08:00:04", "08:00:06", "08:00:08", "08:00:10", "08:00:12"]
        );
        for span_h in [0.002, 0.1, 1.0, 5.0, 30.0, 170.0, 800.0, 9_000.0, 90_000.0] {
            let found = hours(0.3, 0.3 + span_h);
            assert!((1..=9).contains(&found.len()), "{span_h} h: {found:?}");
        }
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([0.0, 0.5, 2.0, 2.5, 50_000.0].map(tick_label), ["0", "0.5", "2", "2.5", "50 000"]);
        assert_eq!([1e-9, 5e-4, 1e-3].map(tick_label), ["1e-9", "5e-4", "0.001"]);
        assert_eq!([1.0, 100.0, 1e3, 1e6, 5e9].map(count_label), ["1", "100", "1k", "1M", "5G"]);
    }
}
