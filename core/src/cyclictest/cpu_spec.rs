//! CPU lists of cyclictest's options, in libnuma's notation.

use crate::cpuset::CpuSet;

/// A set of CPUs as libnuma reads it; meaning depends on the machine, see [`CpuSpec::resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSpec {
    /// No list (`-a` alone, `-S`): the affinity of this process.
    Usable,
    /// `all`: all that are online.
    All,
    /// `0-3,5`.
    These(CpuSet),
    /// `!0`: all others in the affinity of this process.
    AllBut(CpuSet),
    /// `+0-1`: relative to the affinity of this process.
    Relative(CpuSet),
}

/// libnuma reads the numbers of a list as `strtoul` does with base 0: `0x1` is CPU 1, `010` is CPU 8.
fn decimal(list: &str) -> Option<String> {
    let number = |text: &str| -> Option<String> {
        let digits = text.trim();
        let read = match (digits.strip_prefix("0x").or(digits.strip_prefix("0X")), digits.strip_prefix('0')) {
            (Some(hex), _) => u32::from_str_radix(hex, 16),
            (_, Some(octal)) if !octal.is_empty() => u32::from_str_radix(octal, 8),
            _ => return Some(digits.to_owned()),
        };
        Some(read.ok()?.to_string())
    };
    let range = |text: &str| Some(text.split('-').map(number).collect::<Option<Vec<_>>>()?.join("-"));
    Some(list.split(',').map(range).collect::<Option<Vec<_>>>()?.join(","))
}

impl CpuSpec {
    pub(super) fn parse(text: &str) -> Option<CpuSpec> {
        let list = |text: &str| decimal(text)?.parse::<CpuSet>().ok().filter(|set| !set.is_empty());
        match text.trim() {
            "all" => Some(CpuSpec::All),
            text => match text.as_bytes().first()? {
                b'!' => list(&text[1..]).map(CpuSpec::AllBut),
                b'+' => list(&text[1..]).map(CpuSpec::Relative),
                _ => list(text).map(CpuSpec::These),
            },
        }
    }

    /// The CPUs on a machine with the CPUs `online`, for a process with the affinity `allowed`.
    ///
    /// Explicit CPUs are accepted even if not inherited: with `isolcpus=` a shell has only the other CPUs. The kernel
    /// may still refuse the affinity.
    ///
    /// # Errors
    /// Names the CPU that is not online, or reports that none is left.
    pub fn resolve(&self, allowed: &CpuSet, online: &CpuSet) -> Result<CpuSet, String> {
        let named = match self {
            CpuSpec::These(set) | CpuSpec::AllBut(set) => set.minus(online),
            _ => CpuSet::default(),
        };
        if let Some(cpu) = named.iter().next() {
            return Err(format!("cpu argument {cpu} is out of range: CPU {online} is online"));
        }
        let meant: CpuSet = match self {
            CpuSpec::Usable => allowed.clone(),
            CpuSpec::All => online.clone(),
            CpuSpec::These(set) => set.clone(),
            CpuSpec::AllBut(set) => allowed.minus(set),
            CpuSpec::Relative(set) => {
                set.iter().filter_map(|index| allowed.iter().nth(index.0 as usize)).collect()
            }
        };
        if meant.is_empty() {
            return Err(format!("the CPU list leaves none: this process was given CPU {allowed}"));
        }
        Ok(meant)
    }
}
