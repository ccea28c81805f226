//! Times on the command line, with the unit of bare numbers for each option.

use lathunt_core::time::{parse_duration, Ns};

/// A length of a measurement: bare numbers are seconds. At most a year.
///
/// # Errors
/// One line for clap.
pub fn seconds(text: &str) -> Result<Ns, String> {
    within(text, Ns(1_000_000_000), Ns(366 * 86_400 * 1_000_000_000))
}

/// An interval, deadline or threshold: bare numbers are µs. At most an hour.
///
/// # Errors
/// One line for clap.
pub fn microseconds(text: &str) -> Result<Ns, String> {
    if let Some(number) = text.strip_suffix('m').filter(|number| number.parse::<f64>().is_ok()) {
        return Err(format!("m is minutes: write {number}ms for milliseconds, {number}us for microseconds"));
    }
    within(text, Ns(1_000), Ns(3_600 * 1_000_000_000))
}

/// Period of a measuring thread, as [`microseconds`]: below 10 µs nothing else would run.
///
/// # Errors
/// One line for clap.
pub fn interval(text: &str) -> Result<Ns, String> {
    const SHORTEST: Ns = Ns::from_us(10);
    match microseconds(text)? {
        interval if interval < SHORTEST => Err(format!("the shortest interval is {SHORTEST}")),
        interval => Ok(interval),
    }
}

/// Maximum exit latency of idle states: bare numbers are µs; 0: none allowed.
///
/// # Errors
/// One line for clap.
pub fn idle_latency(text: &str) -> Result<Ns, String> {
    if text.trim() == "0" {
        return Ok(Ns::ZERO);
    }
    microseconds(text)
}

/// Exit latency of idle states for /dev/cpu_dma_latency, in whole µs.
///
/// # Errors
/// One line for clap.
pub fn whole_microseconds(text: &str) -> Result<i32, String> {
    let number = text.trim_end_matches("us").parse::<i32>().ok().filter(|us| *us >= 0);
    number.ok_or_else(|| format!("'{text}' is not a whole number of µs; write for example 0 or 10"))
}

/// A number of bytes: `4096`, `500M`, `2G` (powers of 1024).
///
/// # Errors
/// One line for clap.
pub fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.strip_suffix(['k', 'K', 'M', 'G', 'T']) {
        Some(number) => (number, text.trim_start_matches(number)),
        None => (text, ""),
    };
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => 40,
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("'{text}' is not a number of bytes; write for example 500M or 2G"))
}

fn within(text: &str, bare_unit: Ns, longest: Ns) -> Result<Ns, String> {
    match parse_duration(text, bare_unit) {
        Ok(Ns::ZERO) => Err("must be above 0".to_owned()),
        Ok(length) if length > longest => Err(format!("is longer than {longest}")),
        Ok(length) => Ok(length),
        Err(error) => Err(error.to_string()),
    }
}

/// A count; also as `1e8`.
///
/// # Errors
/// One line for clap.
pub fn count(text: &str) -> Result<u64, String> {
    let value: f64 =
        text.parse().map_err(|_| format!("'{text}' is not a number; write for example 1000000 or 1e8"))?;
    const MOST: f64 = 1e12;
    match value.fract() == 0.0 && (1.0..=MOST).contains(&value) {
        true => Ok(value as u64),
        false => Err(format!("'{text}' is not a whole number from 1 to 1e12")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_leaves_time_for_others() {
        assert_eq!((interval("10"), interval("1ms")), (Ok(Ns(10_000)), Ok(Ns::from_ms(1))));
        for short in ["9", "9999ns", "0"] {
            assert!(interval(short).is_err(), "{short}");
        }
    }

    #[test]
    fn a_latency_of_minutes_is_taken_for_a_slip() {
        assert!(microseconds("100m").unwrap_err().contains("write 100ms for milliseconds"));
        assert_eq!((microseconds("100ms"), seconds("2m")), (Ok(Ns::from_ms(100)), Ok(Ns(120_000_000_000))));
    }

    #[test]
    fn counts_are_whole_numbers_also_in_powers_of_ten() {
        assert_eq!((count("1e8"), count("250")), (Ok(100_000_000), Ok(250)));
        for bad in ["0", "-1", "1.5", "x", "", "1e13", "nan", "inf"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }
}
