//! Global scheduling on several processors: a simple sufficient test. Not necessary: rejection proves nothing.

use super::edf;

/// Goossens, Funk & Baruah 2003: U <= m − (m − 1) U_max, for implicit deadlines under global EDF.
///
/// Deadlines below periods count with densities (C / min(D, T)), which is sound.
#[must_use]
pub fn gfb(threads: &[edf::Thread], processors: usize) -> bool {
    let density =
        |thread: &edf::Thread| thread.wcet.0 as f64 / thread.deadline.0.min(thread.period.0).max(1) as f64;
    let (sum, largest) =
        threads.iter().map(density).fold((0.0, 0.0f64), |(sum, most), one| (sum + one, most.max(one)));
    let m = processors as f64;
    sum <= m - (m - 1.0) * largest - 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ns;

    #[test]
    fn the_utilisation_bound_is_that_of_the_largest_task() {
        let all = |shares: &[u64]| -> Vec<edf::Thread> {
            shares.iter().map(|c| edf::Thread { wcet: Ns(*c), period: Ns(10), deadline: Ns(10) }).collect()
        };
        assert!(gfb(&all(&[5, 5, 4]), 2), "1.4 <= 2 − 0.5");
        assert!(!gfb(&all(&[9, 3, 2]), 2), "1.4 > 2 − 0.9");
    }
}
