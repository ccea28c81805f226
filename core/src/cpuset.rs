//! CPU lists in the kernel's notation (`0-3,6`), as `taskset -c`, `isolcpus=` and cpusets use it.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::time::Cpu;

/// A set of CPUs, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuSet(BTreeSet<Cpu>);

/// Largest CPU number accepted: the kernel's limit on x86-64 (`NR_CPUS` 8192, arch/x86/Kconfig).
pub const CPU_LIMIT: u32 = 8192;

/// Text that is not a CPU list.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a CPU list; write for example 0, 1-3 or 0,2-5")]
pub struct NotACpuList(pub String);

impl CpuSet {
    /// The CPUs, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Cpu> + '_ {
        self.0.iter().copied()
    }

    /// How many CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// No CPU at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `cpu` is in the set.
    #[must_use]
    pub fn contains(&self, cpu: Cpu) -> bool {
        self.0.contains(&cpu)
    }

    /// Whether any CPU is in both.
    #[must_use]
    pub fn meets(&self, other: &CpuSet) -> bool {
        self.iter().any(|cpu| other.contains(cpu))
    }

    /// CPUs in both.
    #[must_use]
    pub fn within(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.intersection(&other.0).copied().collect())
    }

    /// Reads the kernel's hexadecimal masks (`f`, `00000003,ffffffff`).
    #[must_use]
    pub fn from_mask(text: &str) -> Option<CpuSet> {
        let mut cpus = BTreeSet::new();
        for (place, group) in text.trim().rsplit(',').enumerate() {
            let bits = u32::from_str_radix(group, 16).ok()?;
            let base = u32::try_from(place * 32).ok().filter(|base| *base < CPU_LIMIT)?;
            cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| Cpu(base + bit)));
        }
        Some(CpuSet(cpus))
    }

    /// The hexadecimal mask, as the kernel reads it.
    #[must_use]
    pub fn to_mask(&self) -> String {
        let groups = self.0.last().map_or(1, |last| last.0 / 32 + 1);
        let group = |place: u32| {
            (0..32).filter(|bit| self.contains(Cpu(place * 32 + bit))).fold(0u32, |bits, bit| bits | 1 << bit)
        };
        let mut text = format!("{:x}", group(groups - 1));
        for place in (0..groups - 1).rev() {
            text.push_str(&format!(",{:08x}", group(place)));
        }
        text
    }

    /// CPUs of `self` that are not in `other`.
    #[must_use]
    pub fn minus(&self, other: &CpuSet) -> CpuSet {
        CpuSet(self.0.difference(&other.0).copied().collect())
    }
}

impl FromIterator<Cpu> for CpuSet {
    fn from_iter<I: IntoIterator<Item = Cpu>>(cpus: I) -> Self {
        CpuSet(cpus.into_iter().collect())
    }
}

impl FromStr for CpuSet {
    type Err = NotACpuList;

    /// An empty text is the empty set, as in the kernel's files.
    fn from_str(text: &str) -> Result<Self, NotACpuList> {
        let bad = || NotACpuList(text.trim().to_owned());
        let number = |part: &str| -> Result<u32, NotACpuList> {
            part.trim().parse().ok().filter(|&n| n < CPU_LIMIT).ok_or_else(bad)
        };
        let mut cpus = BTreeSet::new();
        if text.trim().is_empty() {
            return Ok(CpuSet(cpus));
        }
        for part in text.trim().split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(bad());
            }
            cpus.extend((first..=last).map(Cpu));
        }
        Ok(CpuSet(cpus))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.0.iter().map(|c| c.0).peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if(|&n| n == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_a_round_trip_in_the_kernels_notation() {
        for (given, kept) in
            [("0-3,6", "0-3,6"), ("3,1,2", "1-3"), ("", ""), (" 5 ", "5"), ("0-1,1-2", "0-2")]
        {
            assert_eq!(given.parse::<CpuSet>().unwrap().to_string(), kept);
        }
    }

    #[test]
    fn masks_are_the_kernels() {
        for (list, mask) in [("0-3", "f"), ("", "0"), ("0,33", "2,00000001"), ("64", "1,00000000,00000000")] {
            let cpus: CpuSet = list.parse().unwrap();
            assert_eq!(cpus.to_mask(), mask);
            assert_eq!(CpuSet::from_mask(mask), Some(cpus));
        }
        assert_eq!(CpuSet::from_mask("00000003"), "0-1".parse().ok());
        assert_eq!(CpuSet::from_mask("x"), None);
    }

    #[test]
    fn what_is_not_a_list_is_refused() {
        for bad in ["x", "1-", "-1", "3-1", "1,,2", "0-99999999", "1;2"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }
}
