//! The members of one object, taken one by one: the rest are unknown keys, and repeated keys are reported.

use super::super::json::Json;
use super::super::set::Warning;
use super::NotATaskSet;
use crate::cpuset::{CpuSet, CPU_LIMIT};
use crate::time::{Cpu, Ns};

/// One object of the file.
pub(super) struct Fields<'a> {
    pub place: String,
    /// In file order; `true`: taken.
    members: Vec<(&'a str, &'a Json, bool)>,
    pub warnings: Vec<Warning>,
}

type Result<T> = std::result::Result<T, NotATaskSet>;

impl<'a> Fields<'a> {
    pub fn new(place: &str, value: &'a Json) -> Result<Fields<'a>> {
        let Json::Object(members) = value else {
            return Err(NotATaskSet::new(place, format!("expected an object, found {}", value.kind())));
        };
        let members = members.iter().map(|(key, value)| (key.as_str(), value, false)).collect();
        Ok(Fields { place: place.to_owned(), members, warnings: Vec::new() })
    }

    pub fn error(&self, what: impl Into<String>) -> NotATaskSet {
        NotATaskSet::new(&self.place, what)
    }

    pub fn warn(&mut self, name: &'static str, text: impl Into<String>) {
        self.warnings.push(Warning { name, place: self.place.clone(), text: text.into() });
    }

    /// The value of a key that may occur once.
    pub fn take(&mut self, key: &str) -> Result<Option<&'a Json>> {
        let mut found = None;
        for member in self.members.iter_mut().filter(|member| member.0 == key) {
            if found.is_some() {
                return Err(NotATaskSet::new(&self.place, format!("\"{key}\" appears twice; keep one")));
            }
            member.2 = true;
            found = Some(member.1);
        }
        Ok(found)
    }

    /// Remaining members, in file order; those that are `wanted` are marked as taken.
    pub fn take_all(&mut self, wanted: impl Fn(&str) -> bool) -> Vec<(&'a str, &'a Json)> {
        let left = self.members.iter_mut().filter(|member| !member.2 && wanted(member.0));
        left.map(|member| {
            member.2 = true;
            (member.0, member.1)
        })
        .collect()
    }

    pub fn has(&self, key: &str) -> bool {
        self.members.iter().any(|member| member.0 == key)
    }

    fn mismatch(&self, key: &str, wanted: &str, found: &Json) -> NotATaskSet {
        self.error(format!("\"{key}\" must be {wanted}, found {}", found.kind()))
    }

    /// A whole number in `range`.
    pub fn integer(&mut self, key: &str, range: std::ops::RangeInclusive<i64>) -> Result<Option<i64>> {
        let Some(value) = self.take(key)? else { return Ok(None) };
        let Json::Number(text) = value else { return Err(self.mismatch(key, "a whole number", value)) };
        match text.parse::<i64>() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => {
                let (low, high) = (range.start(), range.end());
                Err(self
                    .error(format!("\"{key}\" must be a whole number from {low} to {high}, found {text}")))
            }
        }
    }

    /// A time in µs.
    pub fn us(&mut self, key: &str) -> Result<Option<Ns>> {
        let Some(value) = self.take(key)? else { return Ok(None) };
        self.time(key, value).map(Some)
    }

    /// A time in µs from a value; fractions are an extension. Below 1 ns, deadlines and periods are rounded down, all others
    /// up: a set must not become easier than its file.
    pub fn time(&mut self, key: &str, value: &Json) -> Result<Ns> {
        let Json::Number(text) = value else { return Err(self.mismatch(key, "a time in µs", value)) };
        if let Ok(us) = text.parse::<u64>() {
            if us <= LONGEST_US {
                return Ok(Ns(us * 1_000));
            }
        } else if let Some(ns) = as_ns(text, !is_limit(key)).filter(|ns| *ns <= LONGEST_US * 1_000) {
            self.warn("extension", format!("\"{key}\": rt-app takes whole µs only, and would refuse {text}"));
            return Ok(Ns(ns));
        }
        Err(self.error(format!("\"{key}\" must be a time in µs from 0 to {LONGEST_US}, found {text}")))
    }

    pub fn boolean(&mut self, key: &str) -> Result<Option<bool>> {
        match self.take(key)? {
            None => Ok(None),
            Some(Json::Bool(value)) => Ok(Some(*value)),
            Some(other) => Err(self.mismatch(key, "true or false", other)),
        }
    }

    pub fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.take(key)? {
            None => Ok(None),
            Some(Json::Text(value)) => Ok(Some(value.clone())),
            Some(other) => Err(self.mismatch(key, "a string", other)),
        }
    }

    pub fn cpus(&mut self, key: &str) -> Result<Option<CpuSet>> {
        let Some(value) = self.take(key)? else { return Ok(None) };
        let Json::List(items) = value else {
            return Err(self.mismatch(key, "an array of CPU numbers", value));
        };
        let number = |item: &Json| match item {
            Json::Number(text) => text.parse::<u32>().ok().filter(|cpu| *cpu < CPU_LIMIT).map(Cpu),
            _ => None,
        };
        let cpus: Option<CpuSet> =
            items.iter().map(number).collect::<Option<Vec<Cpu>>>().map(CpuSet::from_iter);
        match cpus.filter(|cpus| !cpus.is_empty()) {
            Some(cpus) => Ok(Some(cpus)),
            None => Err(self.error(format!("\"{key}\" must be an array of CPU numbers, at least one"))),
        }
    }

    /// The warnings; an error unless every member was taken.
    pub fn finish(self) -> Result<Vec<Warning>> {
        match self.members.iter().find(|member| !member.2) {
            Some((key, ..)) => Err(self.error(format!("unknown key \"{key}\" (rt-app would ignore it)"))),
            None => Ok(self.warnings),
        }
    }
}

/// About 11.6 days; the sum over 10^4 tasks fits in 64 bits of ns.
const LONGEST_US: u64 = 1_000_000_000_000;

/// Whether a larger value makes a set easier.
fn is_limit(key: &str) -> bool {
    key.ends_with("deadline") || key.ends_with("period")
}

/// A JSON number of µs in ns, from its digits: no binary fraction is exact. `None`: negative, or too large.
fn as_ns(text: &str, up: bool) -> Option<u64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().ok()?;
    // Digits that are whole ns; the others are below.
    let point = i64::try_from(whole.len()).ok()? + i64::from(exponent) + 3;
    let (mut ns, mut rest, mut count) = (0u64, false, 0);
    for digit in whole.chars().chain(fraction.chars()).map(|digit| digit.to_digit(10)) {
        let digit = digit?;
        match count < point {
            true => ns = ns.checked_mul(10)?.checked_add(u64::from(digit))?,
            false => rest |= digit > 0,
        }
        count += 1;
    }
    while count < point && ns > 0 {
        ns = ns.checked_mul(10)?;
        count += 1;
    }
    ns.checked_add(u64::from(rest && up))
}

/// A value as JSON text.
pub(super) fn as_text(value: &Json) -> String {
    match value {
        Json::Null => "null".to_owned(),
        Json::Bool(value) => value.to_string(),
        Json::Number(text) => text.clone(),
        Json::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
        Json::List(items) => format!("[{}]", items.iter().map(as_text).collect::<Vec<_>>().join(", ")),
        Json::Object(members) => {
            let member = |(key, value): &(String, Json)| {
                format!("{}: {}", serde_json::Value::from(key.as_str()), as_text(value))
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_nanosecond_work_is_rounded_up_and_a_deadline_down_and_decimal_fractions_are_exact() {
        let of = |text: &str| (as_ns(text, false), as_ns(text, true));
        let same = |ns: u64| (Some(ns), Some(ns));
        assert_eq!(of("1.1"), same(1_100), "1.1 * 1000 is not 1100 in binary");
        assert_eq!(of("0.001"), same(1));
        assert_eq!(of("1000.0006"), (Some(1_000_000), Some(1_000_001)));
        assert_eq!(of("0.0004"), (Some(0), Some(1)));
        assert_eq!((of("1.5e3"), of("15E-1"), of("1e-3")), (same(1_500_000), same(1_500), same(1)));
        assert_eq!((of("1e-9"), of("0e999999999"), of("0.000")), ((Some(0), Some(1)), same(0), same(0)));
        assert_eq!(of("99999999999999999999.5"), (None, None));
        assert_eq!(
            (of("1e2147483647"), of("1e99999999999"), of("-0.5")),
            ((None, None), (None, None), (None, None))
        );
        assert!(
            is_limit("dl-deadline") && is_limit("period") && !is_limit("dl-runtime") && !is_limit("sleep")
        );
    }
}
