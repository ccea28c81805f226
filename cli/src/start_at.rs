//! `--start-at`: several machines start measuring at one time of a shared clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{bail, Result};
use lathunt_core::calendar::rfc3339;
use lathunt_core::conditions::CommonStart;
use lathunt_core::time::{Mono, Ns};
use lathunt_host::clock::{mono, WallClock};
use lathunt_host::signals;

/// Time left for starting the threads.
const LEAD: Ns = Ns::from_ms(200);
const SECOND: u64 = 1_000_000_000;
/// A later start is considered a typing error.
const LATEST: Ns = Ns(7 * 86_400 * SECOND);
/// Pairs of readings, of which the closest counts.
const READINGS: usize = 16;

/// A future time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartAt {
    tai: bool,
    ns: u64, // since 1970, on its clock
}

/// Start of the first period.
#[derive(Clone, Debug)]
pub struct Begin {
    /// On CLOCK_MONOTONIC.
    pub mono: Mono,
    /// The same on CLOCK_REALTIME, ns since 1970.
    pub realtime: u64,
    /// For the conditions of the run.
    pub common: CommonStart,
}

impl FromStr for StartAt {
    type Err = String;

    /// `2026-11-26T13:00:00Z`, with `+01:00` instead of `Z`, with a fraction; `@SECONDS` since 1970; with the prefix `tai:`
    /// on CLOCK_TAI.
    fn from_str(text: &str) -> Result<StartAt, String> {
        let (tai, rest) = text.strip_prefix("tai:").map_or((false, text), |rest| (true, rest));
        let ns = match rest.strip_prefix('@') {
            Some(seconds) => decimal(seconds),
            None => calendar(rest),
        };
        let ns = ns.ok_or_else(|| {
            format!("'{text}' is not a moment; write for example 2026-11-26T13:00:00Z, @1795698000.5 or tai:@1795698037")
        })?;
        Ok(StartAt { tai, ns })
    }
}

/// Seconds with at most nine digits of a fraction, as ns.
fn decimal(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let fraction = fraction.parse::<u64>().ok()? * 10u64.pow(9 - fraction.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(SECOND)?.checked_add(fraction)
}

fn calendar(text: &str) -> Option<u64> {
    let (seconds, ns) = rfc3339(text)?;
    u64::try_from(seconds).ok()?.checked_mul(SECOND)?.checked_add(u64::from(ns))
}

impl fmt::Display for StartAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.ns / SECOND, self.ns % SECOND);
        write!(f, "{}@{whole}.{fraction:09}", if self.tai { "tai:" } else { "" })
    }
}

impl StartAt {
    fn clock(self) -> WallClock {
        if self.tai {
            WallClock::Tai
        } else {
            WallClock::Realtime
        }
    }

    /// Time until then; `None`: it has passed.
    #[must_use]
    pub fn left(self) -> Option<Ns> {
        self.ns.checked_sub(self.clock().now()).map(Ns)
    }

    /// Checks that it is in the future, and not too far.
    ///
    /// # Errors
    /// One line.
    pub fn check(self) -> Result<()> {
        match self.left() {
            None => bail!("--start-at {self}: that time has passed; name one in the future"),
            Some(left) if left > LATEST => bail!("--start-at {self}: that time is more than 7 days away"),
            Some(_) if self.tai && tai_is_utc() => bail!(
                "--start-at {self}: this kernel does not know the offset of TAI, so CLOCK_TAI is UTC here; let ptp4l or \
                 chrony set it, or name a moment of UTC"
            ),
            Some(_) => Ok(()),
        }
    }

    /// Waits until shortly before, when the threads are to be started. `None`: a signal requested the end.
    ///
    /// # Errors
    /// One line: the preparations took too long.
    pub fn wait(self) -> Result<Option<Begin>> {
        loop {
            let Some(left) = self.left().filter(|left| left.0 > LEAD.0 / 4) else {
                bail!("--start-at {self}: that passed before everything was ready; leave more time");
            };
            if signals::stop_requested().is_some() {
                return Ok(None);
            }
            match left.0.saturating_sub(LEAD.0) {
                0 => break,
                // In steps, because the clock may be set.
                wait => std::thread::sleep(Duration::from_nanos(wait.min(50_000_000))),
            }
        }
        let of = |clock: WallClock| {
            let reading = |_| {
                let before = mono();
                let wall = clock.now();
                let after = mono();
                let taken = after.since(before);
                (taken, wall.wrapping_sub(before.0 + taken.0 / 2))
            };
            (0..READINGS).map(reading).min().unwrap_or_default()
        };
        let (taken, offset) = of(self.clock());
        let (_, realtime) = of(WallClock::Realtime);
        let begin = Mono(self.ns.wrapping_sub(offset));
        let common = CommonStart {
            clock: if self.tai { "tai" } else { "realtime" }.to_owned(),
            at_ns: self.ns,
            begin,
            uncertainty_ns: Ns(taken.0.div_ceil(2)),
        };
        Ok(Some(Begin { mono: begin, realtime: begin.0.wrapping_add(realtime), common }))
    }
}

/// The kernel's TAI offset is 0 until it is set.
fn tai_is_utc() -> bool {
    WallClock::Tai.now().abs_diff(WallClock::Realtime.now()) < SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_each_way_of_writing() {
        let ns = |text: &str| text.parse::<StartAt>().map(|at| at.ns);
        // date -u -d 2026-11-26T13:00:00Z +%s
        for text in
            ["2026-11-26T13:00:00Z", "2026-11-26T14:30:00+01:30", "2026-11-26T08:00:00-05:00", "@1795698000"]
        {
            assert_eq!(ns(text), Ok(1_795_698_000 * SECOND), "{text}");
        }
        assert_eq!(ns("2000-02-29T23:59:59.25Z"), Ok(951_868_799_250_000_000));
        assert_eq!(ns("1970-01-01T00:00:00Z"), Ok(0));
        assert!("tai:@7".parse::<StartAt>().unwrap().tai);
        for bad in [
            "",
            "13:00",
            "2026-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "@-1",
            "@1.0000000001",
            "2026-11-26T24:00:00Z",
            "2026-11-26T13:00:00",
            "tai:",
            "@",
            "2026-11-26T13:00:00Zx",
            "1969-12-31T00:00:00Z",
        ] {
            assert!(ns(bad).is_err(), "{bad}");
        }
    }
}
