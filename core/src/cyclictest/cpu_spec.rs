//! Lists of CPUs as cyclictest's options take them: libnuma's notation.

use crate::cpuset::CpuSet;

/// A set of CPUs as libnuma reads it; meaning depends on the machine, see [`CpuSpec::resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CpuSpec {
    /// No list (`-a` alone, `-S`): those that this process may use.
    Usable,
    /// `all`: all that are online.
    All,
    /// `0-3,5`.
    These(CpuSet),
    /// `!0`: all others that this process may use.
    AllBut(CpuSet),
    /// `+0-1`: counted within those that this process may use.
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

    /// The CPUs meant, on a machine whose CPUs `online` are there and of which this process was given `allowed`.
    ///
    /// Whoever names a CPU gets it, also one that was not inherited: with `isolcpus=` a shell has the other CPUs only.
    /// Whether the kernel lets a thread run there shows when it is bound.
    ///
    /// # Errors
    /// Names the CPU that is not online, or says that none is left.
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
