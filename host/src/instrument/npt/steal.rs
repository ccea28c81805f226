//! Attributes steal time to gaps.

use lathunt_core::time::Ns;

use super::lane;

/// The longest time between two timer interrupts of a CPU that is not idle.
const TICK: Ns = Ns::from_ms(10);

/// Steal time in each gap; `None`: unknown. The kernel's counter grows in the timer interrupt, so its growth belongs to a
/// gap since the previous one: to the longest of them, since a loop that is stolen from for long has a long gap.
pub(super) fn share_steal(
    raws: &[lane::Raw],
    last: &mut Option<u64>,
    distance: impl Fn(u64, u64) -> Ns,
) -> Vec<Option<Ns>> {
    let mut shares = vec![None; raws.len()];
    let mut window = 0;
    for (index, raw) in raws.iter().enumerate() {
        if raw.stolen == 0 {
            continue;
        }
        let Some(before) = last.replace(raw.stolen) else { continue };
        shares[index] = Some(Ns::ZERO);
        let more = raw.stolen.saturating_sub(before);
        if more == 0 {
            continue;
        }
        let recent = |other: &lane::Raw| distance(other.end, raw.end) <= TICK;
        let robbed = (window..=index)
            .filter(|&at| recent(&raws[at]) && shares[at].is_some())
            .max_by_key(|&at| raws[at].end.wrapping_sub(raws[at].begin))
            .unwrap_or(index);
        shares[robbed] = Some(shares[robbed].unwrap_or_default() + Ns(more));
        window = index + 1;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_goes_to_the_longest_gap_since_the_last_timer_interrupt() {
        let raw = |begin: u64, length: u64, stolen: u64| lane::Raw {
            begin: begin * 1_000,
            end: (begin + length) * 1_000,
            stolen,
            ..lane::Raw::default()
        };
        let raws = [
            raw(0, 5, 100),           // earlier steal time is unknown
            raw(1_000, 300, 100),     // stolen, and not yet counted
            raw(4_000, 6, 290_100),   // the timer interrupt that counts it
            raw(8_000, 900, 890_100), // stolen and counted in one
            raw(99_000, 6, 890_200),  // just stolen: the long one ended long ago
        ];
        let distance = |from: u64, to: u64| Ns(to - from);
        let mut last = None;
        let shares = share_steal(&raws, &mut last, distance);
        let ns = |ns: u64| Some(Ns(ns));
        assert_eq!(shares, [None, ns(290_000), ns(0), ns(600_000), ns(100)]);
        assert_eq!(last, Some(890_200));
        let unknown = share_steal(&[raw(0, 5, 0)], &mut None, distance);
        assert_eq!(unknown, [None]);
    }
}
