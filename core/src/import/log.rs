//! Removes what logs and mails add: quotes, an indentation, a time stamp, the breaks of quoted-printable.

use std::borrow::Cow;

use crate::trace::ftrace_text::tidy::characters;

/// Removes something from a text; `None` if it is not there.
type Strip = fn(&str) -> Option<String>;

/// A quoted log has several prefixes.
const OF_LOGS: [Strip; 4] = [quotes, indentation, stamps, indentation];
/// Of a text with words around it.
const OF_MAILS: [Strip; 2] = [pasted, wrapped];
/// Maximum size of such a text: a larger one is not copied.
const LARGEST_MAIL: usize = 1 << 20;

/// `text` without them. Unchanged and not copied unless all lines have the same prefix, or it is a mail.
pub(super) fn unwrapped(text: &str) -> Cow<'_, str> {
    let is_mail = text.len() <= LARGEST_MAIL;
    let before: &[Strip] = if is_mail { &[broken] } else { &[] };
    let behind: &[Strip] = if is_mail { &OF_MAILS } else { &[] };
    before.iter().chain(&OF_LOGS).chain(behind).fold(Cow::Borrowed(text), |text, strip| {
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

/// Quoted-printable mail, by its heading or by status lines and comments that it broke: `T: 0 … Max:   =`.
fn broken(text: &str) -> Option<String> {
    let is_broken = |line: &str| bare(line).starts_with(['T', '#']) && line.trim_end().ends_with('=');
    let is_mail = text.contains(characters::IS_PRINTABLE) || filled(text).any(is_broken);
    is_mail.then(|| characters::printable(text))
}

/// Status lines that a mail program broke, as the rest can only be theirs: `T: 0 … Max:` and a line with a number.
fn wrapped(text: &str) -> Option<String> {
    let is_open = |line: &str| {
        let figures = line.trim_start_matches(['>', ' ']).strip_prefix("T:");
        figures.is_some_and(|figures| !figures.contains("Max:") || figures.trim_end().ends_with("Max:"))
    };
    let is_rest = |line: &str| {
        let mut words = bare(line).split_whitespace();
        let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
        let is_label = |word: &str| {
            ["P:", "I:", "C:", "Min:", "Act:", "Avg:", "Max:"].iter().any(|label| word.starts_with(label))
        };
        match (words.next(), words.next()) {
            (Some(word), None) => is_number(word) || is_label(word),
            (Some(first), Some(second)) => is_label(first) || is_number(first) && is_label(second),
            (None, _) => false,
        }
    };
    let mut joined = String::with_capacity(text.len());
    let (mut open, mut count) = (false, 0);
    for line in text.lines() {
        if open && is_rest(line) {
            joined.truncate(joined.trim_end().len());
            joined.push(' ');
            joined.push_str(bare(line));
            count += 1;
        } else {
            joined.push_str(line);
        }
        open = is_open(&joined[joined.rfind('\n').map_or(0, |end| end + 1)..]);
        joined.push('\n');
    }
    (count > 0).then_some(joined)
}

/// Quotes and blanks before the lines of a histogram that has words around it.
fn pasted(text: &str) -> Option<String> {
    let is_one = |line: &str| is_of_histogram(bare(line));
    filled(text)
        .any(|line| bare(line).len() < line.len() && is_one(line))
        .then(|| each(text, |line| if is_one(line) { bare(line) } else { line }))
}

fn bare(line: &str) -> &str {
    line.trim_start_matches(['>', ' ', '\t'])
}

/// `# Max Latencies: 00016`, `000011 1395782`: a row has at least six digits in each column.
fn is_of_histogram(line: &str) -> bool {
    let comments =
        ["Histogram", "Total:", "Min Latencies:", "Avg Latencies:", "Max Latencies:", "Thread", "Break"];
    let is_comment = |said: &str| comments.iter().any(|comment| said.starts_with(comment));
    let is_number = |word: &str| word.len() >= 6 && word.bytes().all(|byte| byte.is_ascii_digit());
    line.strip_prefix("# ").is_some_and(is_comment)
        || line.split_whitespace().count() > 1 && line.split_whitespace().all(is_number)
}

/// JSON of a result among words: from a line that starts with `{` to the last one that ends with `}`.
pub(super) fn json(text: &str) -> Option<&str> {
    let place = |line: &str| line.as_ptr() as usize - text.as_ptr() as usize;
    let begin = text.lines().find(|line| line.starts_with('{')).map(place)?;
    let end = text.lines().rfind(|line| line.trim_end().ends_with('}'));
    let block = text.get(begin..end.map(|line| place(line) + line.len())?)?;
    let has_words = block.trim().len() < text.trim().len();
    let is_result = ["\"cpu\"", "\"thread\"", "\"histogram\""].iter().any(|key| block.contains(key));
    (has_words && is_result).then_some(block)
}

/// `> ` before most lines: the others are of the mail that quotes them.
fn quotes(text: &str) -> Option<String> {
    let quoted = filled(text).filter(|line| line.starts_with('>')).count();
    (quoted > 0 && quoted * 2 >= filled(text).count()).then(|| {
        each(text, |line| {
            // Answers quote answers: `> > `.
            let mut rest = line;
            while let Some(quoted) = rest.strip_prefix('>') {
                rest = quoted.strip_prefix(' ').filter(|rest| rest.starts_with('>')).unwrap_or(quoted);
            }
            if rest.len() < line.len() {
                rest.strip_prefix(' ').unwrap_or(rest)
            } else {
                line
            }
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
            "> > ",
            "> >> > ",
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
    fn a_histogram_among_words_is_that_histogram() {
        let bare = read(TEXT, Unit::Guess).unwrap();
        let with = |before: &str| TEXT.lines().map(|line| format!("{before}{line}\n")).collect::<String>();
        let code = TEXT.replace("Overflows: ", "Overflows: =\n").replace("Max:    ", "Max: =\n   ");
        for text in [
            format!(".. code-block:: text\n\n{}", with("  ")),
            format!("Here are the results of 3 boards:\n\n{}\nThanks,\n2 more follow\n", with("    ")),
            format!("> Here are they:\n>\n{}\nFine.\n", with("> ")),
            format!("On Monday A wrote:\n> >> 10 runs:\n{}> Fine.\n2. Second run?\n", with("> >> ")),
            format!("1. First run, 10 min\n\n   ```\n{}   ```\n", with("   ")),
            format!("Content-Transfer-Encoding: quoted-printable\n\n{code}"),
            code,
        ] {
            let run = read(&text, Unit::Guess).unwrap();
            assert_eq!((&run.series, &run.complete), (&bare.series, &bare.complete), "{text}");
        }
        let reply = format!("On Monday A wrote:\n{}\nThanks\n", with("> "));
        assert_eq!(unwrapped(&reply), format!("On Monday A wrote:\n{TEXT}\nThanks\n"));
        assert_eq!(
            json("Here:\n\n```\n{\n  \"cpu\": {\n  }\n}\n```\n2 more\n"),
            Some("{\n  \"cpu\": {\n  }\n}")
        );
        // A row that is damaged, and one too many, are no words.
        for (whole, damaged) in
            [("000001 000005", "000001 0000x5"), ("000002 000002\n", "000002 000002\n3 more\n")]
        {
            let text = format!("Results:\n\n{}\nThanks\n", with("    ").replace(whole, damaged));
            assert!(read(&text, Unit::Guess).is_err(), "{text}");
        }
    }

    #[test]
    fn a_status_line_that_a_mail_program_broke_is_one_line() {
        let line = |max: &str| {
            format!("T: 0 ( 4541) P:99 I:1000 C: 773124 Min:      1 Act:    6 Avg:    3 Max:{max}\n")
        };
        let bare = read(&line("   53381"), Unit::Guess).unwrap();
        let text = line("\n53381");
        for broken in [
            text.clone(),
            text.replace("Min: ", "Min:\n"),
            text.replace("Avg: ", "\nAvg:"),
            text.lines().map(|line| format!("> {line}\n")).collect(),
            format!(
                "Two lines:\n{}and words.\n",
                text.lines().map(|line| format!("  {line}\n")).collect::<String>()
            ),
            line("   =\n53381"),
        ] {
            assert_eq!(read(&broken, Unit::Guess).unwrap().series, bare.series, "{broken}");
        }
        for damaged in [line("\n53381 1"), line("\n000000 000001"), line("\nT: 1 ( 1)"), line("\nwords")] {
            assert!(read(&damaged, Unit::Guess).is_err(), "{damaged}");
        }
    }

    #[test]
    fn single_samples_keep_their_blanks_and_other_texts_are_left_alone() {
        for text in [
            "       0:       0:      19\n       0:       1:      21\n",
            TEXT,
            "",
            "\n\n",
            "> a\nb\nc\n",
            "a 09:41:07\nb\n",
            "{\n}\n",
        ] {
            assert_eq!(unwrapped(text), text);
        }
    }
}
