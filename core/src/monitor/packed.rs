//! A histogram or a peak as bytes for the database: some hundred bytes instead of kilobytes of JSON.
//!
//! A peak is its JSON from the run file, compressed with zstd. A histogram consists of LEB128 numbers (7 bits per byte,
//! low ones first): version 1, width in ns, number of linear bins, sum, minimum, maximum, number of occupied bins, then
//! for each its offset from the previous one (the first: from 0) and its count.

use crate::histogram::{Exact, Histogram, Layout};
use crate::peak::Peak;
use crate::printable::cut;
use crate::time::Ns;

const VERSION: u64 = 1;

/// Maximum bytes of a peak; a longer one is damage.
const LONGEST_PEAK: usize = 4 << 20;

/// The bytes are damaged, or were not packed here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("damaged record: {0}")]
pub struct Damaged(String);

/// The bytes of `peak`; `None` if it is too long.
#[must_use]
pub fn pack_peak(peak: &Peak) -> Option<Vec<u8>> {
    let text = serde_json::to_vec(peak).ok().filter(|text| text.len() <= LONGEST_PEAK)?;
    zstd::bulk::compress(&text, 3).ok()
}

/// The size to which the peaks of a database may still unfold: hostile ones of some bytes unfold to several MiB each.
#[derive(Clone, Copy, Debug)]
pub struct Allowance(usize);

impl Allowance {
    /// For peaks of together `packed_bytes`: 32 MiB, and 32 times as much; honest ones unfold to three to ten times.
    #[must_use]
    pub fn of(packed_bytes: usize) -> Allowance {
        Allowance((32usize << 20).saturating_add(packed_bytes.saturating_mul(32)))
    }
}

/// The peak of these bytes; its size is taken from the `allowance`.
///
/// # Errors
/// The bytes are damaged, or the allowance is used up.
pub fn unpack_peak(bytes: &[u8], allowance: &mut Allowance) -> Result<Peak, Damaged> {
    let most = LONGEST_PEAK.min(allowance.0);
    let text = zstd::bulk::decompress(bytes, most).map_err(|error| {
        if most == LONGEST_PEAK || !error.to_string().contains("too small") {
            return Damaged(error.to_string());
        }
        allowance.0 = 0; // each further record would take the time of this one
        Damaged("the maxima together unfold to more than 32 MiB and 32 times their size".to_owned())
    })?;
    allowance.0 -= text.len();
    // The error quotes what it found, which may be megabytes.
    serde_json::from_slice(&text).map_err(|error| Damaged(cut(&error.to_string(), 200)))
}

/// The bytes of `histogram`.
#[must_use]
pub fn pack(histogram: &Histogram) -> Vec<u8> {
    let layout = histogram.layout();
    let bins: Vec<(usize, u64)> =
        histogram.occupied().map(|(lower, _, n)| (layout.index(lower), n)).collect();
    let mut bytes = Vec::with_capacity(16 + bins.len() * 3);
    let head = [
        VERSION,
        layout.width().0,
        layout.linear_bins() as u64,
        histogram.sum_ns(),
        histogram.min().unwrap_or_default().0,
        histogram.max().unwrap_or_default().0,
        bins.len() as u64,
    ];
    head.into_iter().for_each(|number| put(&mut bytes, number));
    let mut last = 0;
    for (index, n) in bins {
        put(&mut bytes, (index - last) as u64);
        put(&mut bytes, n);
        last = index;
    }
    bytes
}

/// The histogram of these bytes.
///
/// # Errors
/// The bytes are damaged; never panics.
pub fn unpack(bytes: &[u8]) -> Result<Histogram, Damaged> {
    let (layout, counts, exact) = numbers(bytes)?;
    let mut histogram = Histogram::of_few(layout);
    histogram.add_counts(&counts, exact).map_err(|error| Damaged(error.to_string()))?;
    Ok(histogram)
}

/// Adds the histogram of these bytes; cheaper than unpacking it, because most classes of a window are empty.
///
/// # Errors
/// As [`unpack`], or if the classes of the two differ; nothing is added then.
pub fn add(sum: &mut Histogram, bytes: &[u8]) -> Result<(), Damaged> {
    let (layout, counts, exact) = numbers(bytes)?;
    if layout != sum.layout() {
        return Err(Damaged("its classes are not those of the others".to_owned()));
    }
    sum.add_counts(&counts, exact).map_err(|error| Damaged(error.to_string()))
}

/// Layout, (bin index, count) pairs, and the exact figures.
type Numbers = (Layout, Vec<(usize, u64)>, Exact);

fn numbers(bytes: &[u8]) -> Result<Numbers, Damaged> {
    let mut rest = bytes;
    let mut next = |what: &str| take(&mut rest).ok_or_else(|| Damaged(format!("it ends within its {what}")));
    match next("version")? {
        VERSION => {}
        other => return Err(Damaged(format!("version {other}; this lathunt reads {VERSION}"))),
    }
    let [width, linear] =
        [next("width")?, next("linear bins")?].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let layout = Layout::new(width, linear).map_err(|error| Damaged(error.to_string()))?;
    let exact = Exact { sum_ns: next("sum")?, min: Ns(next("minimum")?), max: Ns(next("maximum")?) };
    let bins = next("number of bins")?;
    if bins > layout.bins() as u64 {
        return Err(Damaged(format!("{bins} bins; this layout has {}", layout.bins())));
    }
    let mut counts = Vec::with_capacity(bins as usize);
    let mut index = 0usize;
    for _ in 0..bins {
        let distance = usize::try_from(next("bins")?).unwrap_or(usize::MAX);
        index = index.saturating_add(distance);
        counts.push((index, next("bins")?));
    }
    Ok((layout, counts, exact))
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_packed_comes_back(values in proptest::collection::vec(prop_oneof![0u64..20_000_000, any::<u64>()], 0..60)) {
            let mut histogram = Histogram::new(Layout::LATENCY);
            values.iter().for_each(|&value| histogram.record(Ns(value)));
            prop_assert_eq!(unpack(&pack(&histogram)).unwrap(), histogram);
        }

        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
        }
    }

    #[test]
    fn a_peak_comes_back_and_a_cut_one_is_refused() {
        let peak = Peak {
            quantity: crate::series::Quantity::Wakeup,
            cpu: crate::time::Cpu(3),
            begin: crate::time::Mono(7),
            total_ns: Ns(123_456),
            victim: crate::series::Thread { comm: "motion".into(), ..Default::default() },
            culprit: Some("irqs off: vnd/812".into()),
            explanation: None,
            no_evidence: Some("none was kept".into()),
            context: None,
            during_action: false,
            counted_as: None,
        };
        let bytes = pack_peak(&peak).unwrap();
        let unpack = |bytes: &[u8]| unpack_peak(bytes, &mut Allowance::of(bytes.len()));
        assert_eq!(unpack(&bytes).unwrap(), peak);
        assert!((0..bytes.len()).all(|end| unpack(&bytes[..end]).is_err()));
        let strange = format!("{{\"quantity\":\"{}\"}}", "x".repeat(1 << 20));
        let strange = zstd::bulk::compress(strange.as_bytes(), 3).unwrap();
        assert!(unpack(&strange).unwrap_err().to_string().len() < 300);
        let size = serde_json::to_vec(&peak).unwrap().len();
        let mut allowance = Allowance(2 * size);
        assert!((0..2).all(|_| unpack_peak(&bytes, &mut allowance).is_ok()));
        assert!(unpack_peak(&bytes, &mut allowance).unwrap_err().to_string().contains("together"));
    }

    #[test]
    fn a_cut_histogram_is_refused() {
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..500).for_each(|n| histogram.record(Ns(n * 700)));
        let bytes = pack(&histogram);
        assert!(bytes.len() < 800, "{} bytes", bytes.len());
        for end in 0..bytes.len() {
            assert!(unpack(&bytes[..end]).is_err(), "cut at {end}");
        }
    }
}
