//! Width of a drawn text, so that adjacent texts do not overlap.
//!
//! Advance widths of Helvetica (Adobe's font metrics, AFM), which Arial and Liberation Sans share, with room for DejaVu
//! Sans, the fallback, which is about an eighth wider. Other characters count as a full em: too wide is a gap, too
//! narrow an overlap.

use crate::printable::line;

/// Thousandths of an em of U+0020 to U+007E.
const ASCII: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278,
    500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];
/// Ratio of the widest fallback font to Helvetica.
const STAND_IN: f64 = 1.13;

fn of_letter(letter: char) -> f64 {
    let thousandths = match letter {
        ' '..='~' => ASCII[letter as usize - 0x20],
        '\u{a0}' | '·' => 278,
        '\u{2009}' | '\u{202f}' => 200,
        'µ' | '–' | '−' | '×' | '±' => 584,
        _ => 1_000,
    };
    f64::from(thousandths) / 1e3
}

/// Width of `text` at font size `size`, in the unit of `size`.
#[must_use]
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(of_letter).sum::<f64>() * size * STAND_IN
}

/// `text` on one line and at most `room` wide, with `…` if it was truncated.
#[must_use]
pub fn cut(text: &str, size: f64, room: f64) -> String {
    let text = line(text);
    if width(&text, size) <= room {
        return text.into_owned();
    }
    let mut kept = String::new();
    let mut left = room - width("…", size);
    for letter in text.chars() {
        left -= of_letter(letter) * size * STAND_IN;
        if left < 0.0 {
            break;
        }
        kept.push(letter);
    }
    kept.trim_end().to_owned() + "…"
}

/// `text` in lines that are at most `room` wide, broken at spaces; a longer word is truncated.
#[must_use]
pub fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in line(text).split_whitespace() {
        match lines.last_mut() {
            Some(last) if width(last, size) + width(" ", size) + width(word, size) <= room => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(cut(word, size, room)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_or_wrapped_fits_and_wide_letters_count_as_wide() {
        let text = "WWWW run on board-7: max 14.562 ms (120 000 samples, 3 lost)";
        assert!(width("iiii", 10.0) < width("WWWW", 10.0) && width("測", 10.0) >= 10.0);
        for room in [40.0, 90.0, 247.0] {
            assert!(width(&cut(text, 11.5, room), 11.5) <= room, "{room}");
            let lines = wrap(text, 11.5, room);
            assert!(lines.iter().all(|line| width(line, 11.5) <= room), "{room}: {lines:?}");
        }
        assert_eq!(wrap(text, 11.5, 200.0).join(" "), text);
        assert_eq!(cut(text, 11.5, 1e3), text);
    }
}
