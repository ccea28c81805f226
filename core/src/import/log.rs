//! Removes line prefixes of logs and mails: quotes, a common indentation, a time stamp.

use std::borrow::Cow;

/// `text` without them. Unchanged and not copied unless all lines have the same prefix.
pub(super) fn unwrapped(text: &str) -> Cow<'_, str> {
    // A quoted log has several prefixes.
    [quotes, indentation, stamps, indentation].iter().fold(Cow::Borrowed(text), |text, strip| {
        let stripped = strip(&text);
        stripped.map_or(text, Cow::Owned)
    })
}

fn filled(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

/// Applies `strip` to each line.
fn each(text: &str, strip: impl Fn(&str) -> &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        out.push_str(strip(line));
        out.push_str(end);
    }
    out
}

/// `> ` before each line.
fn quotes(text: &str) -> Option<String> {
    let is_quoted = filled(text).next().is_some() && filled(text).all(|line| line.starts_with('>'));
    is_quoted.then(|| {
        each(text, |line| {
            let rest = line.trim_start_matches('>');
            rest.strip_prefix(' ').unwrap_or(rest)
        })
    })
}

/// Blanks before each line, unless all lines are single samples, which also start with blanks.
fn indentation(text: &str) -> Option<String> {
    let depth = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let common = filled(text).map(depth).min().filter(|common| *common > 0)?;
    let is_text = filled(text)
        .map(|line| &line[common..])
        .any(|line| line.starts_with(['T', '#']) || stamp(line).is_some());
    is_text.then(|| each(text, |line| line.get(common..).unwrap_or("")))
}

/// A time before most lines: the others were wrapped by another program.
fn stamps(text: &str) -> Option<String> {
    let all = filled(text).count();
    let stamped = filled(text).filter(|line| stamp(line).is_some()).count();
    if stamped < 2 || stamped < all - all / 10 {
        return None;
    }
    let blanks = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let rests = filled(text).filter_map(stamp).filter(|rest| !rest.trim().is_empty());
    let gap = rests.map(blanks).min().unwrap_or(0);
    Some(each(text, |line| stamp(line).map_or(line, |rest| rest.get(gap..).unwrap_or(""))))
}

/// What follows `2024-10-22T09:41:07.123456`, `[  12.345678]` or `09:41:07.123`.
fn stamp(line: &str) -> Option<&str> {
    if let Some(seconds) = line.strip_prefix('[') {
        let (time, rest) = seconds.split_once(']')?;
        return time.trim().parse::<f64>().is_ok().then_some(rest);
    }
    let (word, rest) = line.split_at(line.find(' ').unwrap_or(line.len()));
    let time = word.split_once('T').map_or(word, |(date, time)| if is_date(date) { time } else { "" });
    is_time(time).then_some(rest)
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    matches!(parts[..], [year, month, day] if year.len() == 4 && month.len() == 2 && day.len() == 2)
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

/// `09:41:07`, with a fraction and a zone or without.
fn is_time(text: &str) -> bool {
    let clock = text.as_bytes();
    clock.len() >= 8
        && clock[2] == b':'
        && clock[5] == b':'
        && [0, 1, 3, 4, 6, 7].iter().all(|at| clock[*at].is_ascii_digit())
        && clock[8..].iter().all(|byte| byte.is_ascii_digit() || b".,:+-Z".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::{read, Unit};

    const TEXT: &str = "# /dev/cpu_dma_latency set to 0us\nT: 0 ( 2404) P:95 I:200 C:   8 Min:      1 Act:    2 Avg:    1 Max:    \
                        1475\n# Histogram\n000000 000000\n000001 000005\n000002 000002\n# Total: 000000007\n# Min Latencies: 00001\n\
                        # Avg Latencies: 00001\n# Max Latencies: 01475\n# Histogram Overflows: 00001\n";

    #[test]
    fn a_text_in_a_log_or_a_mail_is_the_text() {
        let bare = read(TEXT, Unit::Guess).unwrap();
        assert_eq!(bare.series[0].histogram.count(), 8);
        let with = |before: &str| TEXT.lines().map(|line| format!("{before}{line}\n")).collect::<String>();
        for before in [
            "    ",
            "> ",
            ">>   ",
            "2024-10-22T09:41:07.123456  ",
            "2024-10-22T09:41:07Z ",
            "[   12.345678] ",
            "09:41:07.123 ",
            ">   09:41:07 ",
        ] {
            assert!(read(&with(before), Unit::Guess).as_ref() == Ok(&bare), "{before}");
        }
    }

    #[test]
    fn single_samples_keep_their_blanks_and_other_texts_are_left_alone() {
        for text in [
            "       0:       0:      19\n       0:       1:      21\n",
            TEXT,
            "",
            "\n\n",
            "> a\nb\n",
            "a 09:41:07\nb\n",
        ] {
            assert_eq!(unwrapped(text), text);
        }
    }
}
