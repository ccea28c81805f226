//! Types for durations, instants, CPUs, threads and priorities, which cannot be confused.
//!
//! The only clock is `CLOCK_MONOTONIC`, which `bpf_ktime_get_ns` and `clock_gettime` share. Traces with another clock
//! are converted when they are read.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);
    };
}

quantity!(
    /// A duration in nanoseconds, never negative. Displayed in a suitable unit.
    Ns(u64)
);
quantity!(
    /// An instant of `CLOCK_MONOTONIC`, in nanoseconds since its (boot-time) origin.
    Mono(u64)
);
quantity!(
    /// A logical CPU number as the kernel counts them.
    Cpu(u32)
);
quantity!(
    /// A kernel thread id (`gettid`); 0 is the idle task of any CPU.
    Tid(i32)
);
quantity!(
    /// A priority on the kernel's scale (`task_struct::prio`): lower is more urgent; -1 deadline, 0..=98 real time,
    /// 100..=139 fair (120 is nice 0).
    Prio(i32)
);

impl Ns {
    /// Zero.
    pub const ZERO: Ns = Ns(0);

    /// `us` microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Ns {
        Ns(us.saturating_mul(1_000))
    }

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_ms(ms: u64) -> Ns {
        Ns(ms.saturating_mul(1_000_000))
    }

    /// Microseconds, with fraction.
    #[must_use]
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Seconds, with fraction.
    #[must_use]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The share of `total`, 0..=1; 0 if `total` is 0.
    #[must_use]
    pub fn share_of(self, total: Ns) -> f64 {
        if total == Ns::ZERO {
            return 0.0;
        }
        self.0 as f64 / total.0 as f64
    }

    /// This duration, or the next longer one that is displayed exactly, so that "none above" is true as displayed.
    #[must_use]
    pub const fn rounded_up(self) -> Ns {
        let step = match self.0 {
            0..=999 => 1,
            1_000..=99_999 => 100,
            100_000..=999_999_999 => 1_000,
            _ => 1_000_000,
        };
        Ns(self.0.div_ceil(step).saturating_mul(step))
    }

    /// Both as displayed; with all digits if rounding would make two different durations look equal.
    #[must_use]
    pub fn told_apart(self, other: Ns) -> (String, String) {
        let (one, two) = (self.to_string(), other.to_string());
        if self == other || one != two {
            return (one, two);
        }
        let exact = |ns: Ns| format!("{}.{:03} µs", ns.0 / 1_000, ns.0 % 1_000);
        (exact(self), exact(other))
    }

    /// `self - other`, or zero where that would be negative.
    #[must_use]
    pub const fn saturating_sub(self, other: Ns) -> Ns {
        Ns(self.0.saturating_sub(other.0))
    }
}

impl std::ops::Add for Ns {
    type Output = Ns;
    fn add(self, other: Ns) -> Ns {
        Ns(self.0.saturating_add(other.0))
    }
}

impl std::iter::Sum for Ns {
    fn sum<I: Iterator<Item = Ns>>(parts: I) -> Ns {
        parts.fold(Ns::ZERO, |sum, part| sum + part)
    }
}

impl fmt::Display for Ns {
    /// `850 ns`, `12.3 µs`, `120 µs`, `1.204 ms`, `3.500 s`: at least two significant digits, rounded to the nearest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            0..=999 => format!("{} ns", self.0),
            1_000..=99_949 => format!("{:.1} µs", self.as_us()),
            99_950..=999_499 => format!("{:.0} µs", self.as_us()),
            999_500..=999_999_499 => format!("{:.3} ms", self.0 as f64 / 1e6),
            _ => format!("{:.3} s", self.as_secs()),
        };
        f.pad(&text)
    }
}

impl Mono {
    /// Latest time that a recording can have: 146 years, which CLOCK_REALTIME reaches in 2116. Later times, or times
    /// before 0, are damage and must not be used.
    pub const LATEST: Mono = Mono((1 << 62) - 1);

    /// Time since `earlier`; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Mono) -> Ns {
        Ns(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Ns> for Mono {
    type Output = Mono;
    fn add(self, after: Ns) -> Mono {
        Mono(self.0.saturating_add(after.0))
    }
}

impl fmt::Display for Mono {
    /// Seconds with nanoseconds, as kernel traces print them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000))
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Tid {
    /// The idle task ("swapper") of a CPU.
    pub const IDLE: Tid = Tid(0);
}

impl Prio {
    /// Real-time by the scheduler's rules (`rt_prio`, include/linux/sched/rt.h); deadline tasks count as well.
    #[must_use]
    pub const fn is_realtime(self) -> bool {
        self.0 < 100
    }

    /// From the user's real-time priority 1..=99 (`sched_setscheduler`).
    #[must_use]
    pub const fn from_rt(priority: i32) -> Prio {
        Prio(99 - priority)
    }
}

impl fmt::Display for Prio {
    /// As users set it: `DL`, `RT 95` (FIFO or RR 95), `nice 0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            i32::MIN..=-1 => "DL".to_owned(),
            0..=99 => format!("RT {}", 99 - self.0),
            _ => format!("nice {}", self.0 - 120),
        };
        f.pad(&text)
    }
}

/// Parses a duration on the command line: `60`, `60s`, `500us`, `1.5m`, `2h`, `1d`.
///
/// A bare number counts in `bare_unit`.
///
/// # Errors
/// Names the invalid text and the valid forms.
pub fn parse_duration(text: &str, bare_unit: Ns) -> Result<Ns, NotADuration> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_').unwrap_or(text.len());
    let number: f64 = text[..digits].replace('_', "").parse().map_err(|_| NotADuration(text.to_owned()))?;
    let unit_ns = match text[digits..].trim() {
        "" => bare_unit.0 as f64,
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3_600e9,
        "d" => 86_400e9,
        _ => return Err(NotADuration(text.to_owned())),
    };
    let ns = number * unit_ns;
    if ns.is_finite() && ns < u64::MAX as f64 {
        Ok(Ns(ns.round() as u64))
    } else {
        Err(NotADuration(text.to_owned()))
    }
}

/// Text that is not a duration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a duration; write for example 500us, 10ms, 60s, 5m or 2h")]
pub struct NotADuration(pub String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_write_them() {
        let secs = Ns(1_000_000_000);
        assert_eq!(parse_duration("60", secs), Ok(Ns(60_000_000_000)));
        assert_eq!(parse_duration("1.5ms", secs), Ok(Ns(1_500_000)));
        assert_eq!(parse_duration("2h", secs), Ok(Ns(7_200_000_000_000)));
        for bad in ["", "abc", "-5s", "5 parsecs", "1e999", "999999999999d"] {
            assert!(parse_duration(bad, secs).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_rounded_up_is_shown_exactly_and_two_durations_never_look_the_same() {
        for ns in
            (0..200_000).chain([999_001, 999_999, 1_000_001, 999_999_001, 1_000_000_001, 31_505_400_000])
        {
            let up = Ns(ns).rounded_up();
            let (number, unit) =
                up.to_string().split_once(' ').map(|(n, u)| (n.to_owned(), u.to_owned())).unwrap();
            let per = match unit.as_str() {
                "ns" => 1.0,
                "µs" => 1e3,
                "ms" => 1e6,
                _ => 1e9,
            };
            assert!(
                up >= Ns(ns) && (number.parse::<f64>().unwrap() * per).round() as u64 == up.0,
                "{ns}: {up:?}"
            );
            assert!(up.0 - ns < 1_000 || ns > 1_000_000_000, "{ns}: {up:?}");
        }
        let apart = |a, b| Ns(a).told_apart(Ns(b));
        assert_eq!(apart(100_000, 100_400), ("100.000 µs".to_owned(), "100.400 µs".to_owned()));
        assert_eq!(apart(100_000, 101_000), ("100 µs".to_owned(), "101 µs".to_owned()));
        assert_eq!(apart(100_000, 100_000), ("100 µs".to_owned(), "100 µs".to_owned()));
    }

    #[test]
    fn shown_units_never_round_up_into_a_wrong_unit() {
        assert_eq!(Ns(999).to_string(), "999 ns");
        assert_eq!(Ns(99_949).to_string(), "99.9 µs");
        assert_eq!(Ns(99_950).to_string(), "100 µs");
        assert_eq!(Ns(999_499).to_string(), "999 µs");
        assert_eq!(Ns(999_500).to_string(), "1.000 ms");
        assert_eq!(Ns(8_525_100).to_string(), "8.525 ms");
    }

    #[test]
    fn priorities_show_on_the_users_scale() {
        assert_eq!(Prio::from_rt(95).to_string(), "RT 95");
        assert_eq!(Prio(120).to_string(), "nice 0");
        assert_eq!(Prio(-1).to_string(), "DL");
        assert!(Prio(98).is_realtime() && !Prio(100).is_realtime());
    }
}
