//! Lists of CPUs as cyclictest's options take them: libnuma's notation.

use crate::cpuset::CpuSet;
use crate::time::Cpu;

/// A set of CPUs as libnuma reads it; meaning depends on the machine, see [`CpuSpec::resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSpec {
    /// `all`.
    All,
    /// `0-3,5`.
    These(CpuSet),
    /// `!0`: all others.
    AllBut(CpuSet),
    /// `+0-1`: counted within the CPUs that may be used.
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

    /// The CPUs meant, of those `allowed`; `count` is the number of CPUs of the machine.
    ///
    /// # Errors
    /// Names the CPU that does not exist, or says that none is left.
    pub fn resolve(&self, allowed: &CpuSet, count: u32) -> Result<CpuSet, String> {
        let all: CpuSet = (0..count).map(Cpu).collect();
        let named = match self {
            CpuSpec::All => all.clone(),
            CpuSpec::These(set) => set.clone(),
            CpuSpec::AllBut(set) => all.minus(set),
            CpuSpec::Relative(set) => {
                let nth = |index: &Cpu| allowed.iter().nth(index.0 as usize);
                set.iter().filter_map(|index| nth(&index)).collect()
            }
        };
        if let Some(cpu) = named.minus(&all).iter().next() {
            return Err(format!("cpu argument {cpu} is out of range: this machine has CPU {all}"));
        }
        let usable: CpuSet = named.iter().filter(|&cpu| allowed.contains(cpu)).collect();
        if usable.is_empty() {
            return Err(format!("CPU {named} may not be used by this process (allowed: {allowed})"));
        }
        Ok(usable)
    }
}
