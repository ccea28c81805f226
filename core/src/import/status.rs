//! Status lines of cyclictest: `T: 0 ( 8439) P:80 I:1000 C:   1996 Min:      4 Act:    6 Avg:   18 Max:    2925`.
//!
//! The screen repeats them with growing figures: the last line of a run has the totals. A log may contain several runs,
//! appended or interleaved. The last lines of all runs are merged, so that the largest latency is kept and no sample is
//! counted twice. The first screen also lists threads without a sample and tid: such lines belong to no run.
//!
//! jitterdebugger's lines name the CPU and have an average with decimals: `T: 0 ( 1599) A: 0 C:    593447 Min:         2
//! Avg:    2.97 Max:        59`. Its first versions print the maximum before the average, and the sum of the latencies as
//! `C:` (display_stats in jitterdebugger.c): the number of samples is unknown then.

use std::collections::BTreeMap;

use super::{at, FromFile, NotImportable};
use crate::series::Quantity;

/// The status lines of all threads, by the number of the thread.
#[derive(Debug, Default)]
pub(super) struct Status {
    threads: BTreeMap<usize, Runs>,
}

/// The runs of one thread.
#[derive(Debug, Default)]
struct Runs {
    /// The latest line of the current run.
    last: FromFile,
    /// The last lines of earlier runs.
    ended: Vec<FromFile>,
}

impl Status {
    /// Adds a line of thread `index`.
    pub(super) fn add(&mut self, index: usize, line: FromFile) {
        let Some(runs) = self.threads.get_mut(&index) else {
            self.threads.insert(index, Runs { last: line, ended: Vec::new() });
            return;
        };
        let before = std::mem::replace(&mut runs.last, line);
        if goes_on(&before, &runs.last) {
            return;
        }
        if before.cycles > Some(0) {
            runs.ended.push(before);
        }
        // an interleaved run had not ended
        let first = runs.ended.len().saturating_sub(WRITERS_AT_MOST);
        if let Some(at) = runs.ended[first..].iter().rposition(|run| goes_on(run, &runs.last)) {
            runs.ended.remove(first + at);
        }
    }

    /// All runs of each thread, merged.
    pub(super) fn threads(self) -> impl Iterator<Item = (usize, FromFile)> {
        self.threads.into_iter().map(|(index, mut runs)| {
            if runs.last.cycles == Some(0) {
                runs.last = runs.ended.pop().unwrap_or(runs.last);
            }
            (index, runs.ended.iter().fold(runs.last, together))
        })
    }

    /// Number of the thread whose latest line has this tid.
    pub(super) fn number_of(&self, tid: u64) -> Option<usize> {
        let has = |runs: &Runs| runs.last.tid.is_some_and(|one| u64::try_from(one) == Ok(tid));
        self.threads.iter().find(|(_, runs)| has(runs)).map(|(number, _)| *number)
    }
}

/// Maximum number of interleaved runs; with more, samples are counted repeatedly.
const WRITERS_AT_MOST: usize = 64;

/// Whether `line` continues the run of `before`: the counts of a run never decrease.
fn goes_on(before: &FromFile, line: &FromFile) -> bool {
    before.tid == line.tid && before.cycles <= line.cycles && before.max <= line.max
}

fn together(all: FromFile, other: &FromFile) -> FromFile {
    let samples = |of: &FromFile| of.cycles.unwrap_or(0);
    let sum = samples(&all).saturating_add(samples(other));
    let weighed = |of: &FromFile| of.avg.unwrap_or(0.0) * samples(of) as f64;
    FromFile {
        tid: all.tid.filter(|tid| other.tid == Some(*tid)),
        priority: all.priority.filter(|priority| other.priority == Some(*priority)),
        interval_us: all.interval_us.filter(|interval| other.interval_us == Some(*interval)),
        cycles: Some(sum),
        min: all.min.into_iter().chain(other.min).min(),
        avg: (sum > 0).then(|| (weighed(&all) + weighed(other)) / sum as f64),
        max: all.max.max(other.max),
        more_runs: all.more_runs + 1,
        ..all
    }
}

/// A status line and the text before it: nothing, a log prefix, or a command line without newline.
pub(super) fn find(line: &str) -> Option<(&str, &str)> {
    if line.starts_with("T:") {
        return Some(("", line));
    }
    let is_status = |at: usize| {
        let number = line[at + 2..].trim_start();
        let after = number.trim_start_matches(|c: char| c.is_ascii_digit());
        !line[..at].ends_with(|c: char| c.is_alphanumeric())
            && after.len() < number.len()
            && after.trim_start().starts_with('(')
    };
    let at = line.match_indices("T:").map(|(at, _)| at).find(|at| is_status(*at))?;
    (!line.starts_with('#')).then(|| line.split_at(at))
}

/// Reads a line: the number of the thread, its figures, and whether they have the columns of `-N`.
///
/// # Errors
/// Names the missing figure.
pub(super) fn parse(number: usize, line: &str) -> Result<(usize, FromFile, bool), NotImportable> {
    let mut fields = Fields { number, line, rest: line };
    let index = fields.value("T:")? as usize;
    let tid = fields.value("(")?;
    fields.close()?;
    if fields.follows("A:") {
        return Ok((index, fields.of_jitterdebugger(tid)?, false));
    }
    let [priority, interval_us] = [fields.value_before("P:", "I:")?, fields.value_before("I:", "C:")?];
    let cycles = fields.value("C:")?;
    let [min, _, avg, max] =
        [fields.value("Min:")?, fields.value("Act:")?, fields.value("Avg:")?, fields.value("Max:")?];
    fields.end(cycles, min, max)?;
    // 5 columns in µs, 8 in ns; a latency of seconds fills 7 in µs
    let wide = ["Act:", "Avg:"].iter().all(|label| width_of(line, label).is_some_and(|width| width >= 8));
    let figures = FromFile {
        tid: i32::try_from(tid).ok(),
        priority: priority.and_then(|priority| i32::try_from(priority).ok()),
        interval_us,
        // signaltest, which sends signals without an interval
        quantity: interval_us.is_none().then_some(Quantity::Wakeup),
        cycles: Some(cycles),
        min: Some(min).filter(|_| cycles > 0),
        avg: Some(avg as f64).filter(|_| cycles > 0),
        max: Some(max).filter(|_| cycles > 0),
        ..FromFile::default()
    };
    Ok((index, figures, wide))
}

/// The fields of a line in sequence. A number must be followed by a blank or the end: a decimal point, thousands
/// separator, sign or joined line would change its value.
struct Fields<'l> {
    number: usize,
    line: &'l str,
    rest: &'l str,
}

impl Fields<'_> {
    fn value(&mut self, label: &str) -> Result<u64, NotImportable> {
        let refuse =
            |what: &str| Err(at(self.number, format!("a status line {what} '{label}': {}", self.line)));
        let Some(text) = self.rest.trim_start_matches(' ').strip_prefix(label) else {
            return refuse("without a number after");
        };
        let text = text.trim_start_matches(' ');
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        let Ok(value) = digits.parse() else { return refuse("without a number after") };
        if !(rest.is_empty() || rest.starts_with([' ', ')'])) {
            return refuse("with something other than a whole number after");
        }
        self.rest = rest;
        Ok(value)
    }

    /// Whether the next field has this label.
    fn follows(&self, label: &str) -> bool {
        self.rest.trim_start_matches(' ').starts_with(label)
    }

    /// The fields of jitterdebugger after the bracket.
    fn of_jitterdebugger(mut self, tid: u64) -> Result<FromFile, NotImportable> {
        let [cpu, cycles, min] = [self.value("A:")?, self.value("C:")?, self.value("Min:")?];
        if self.follows("Max:") {
            let what = "this version of jitterdebugger prints the sum of the latencies as C: import its JSON";
            return Err(at(self.number, format!("{what}: {}", self.line)));
        }
        let avg = self.decimal("Avg:")?;
        let max = self.value("Max:")?;
        self.end(cycles, min, max)?;
        Ok(FromFile {
            tid: i32::try_from(tid).ok(),
            cpu: u32::try_from(cpu).ok(),
            cycles: Some(cycles),
            min: Some(min).filter(|_| cycles > 0),
            avg: Some(avg).filter(|_| cycles > 0),
            max: Some(max).filter(|_| cycles > 0),
            ..FromFile::default()
        })
    }

    /// `2.97`; without a sample `-nan`.
    fn decimal(&mut self, label: &str) -> Result<f64, NotImportable> {
        let rest =
            self.rest.trim_start_matches(' ').strip_prefix(label).map(|text| text.trim_start_matches(' '));
        let (word, rest) = rest.and_then(|text| text.split_once(' ')).unwrap_or_default();
        self.rest = rest;
        let digits = word.replacen('.', "", 1);
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        match (is_number, word) {
            (true, _) => Ok(word.parse().unwrap_or(0.0)),
            (false, "-nan" | "nan") => Ok(0.0),
            _ => {
                Err(at(self.number, format!("a status line without a number after '{label}': {}", self.line)))
            }
        }
    }

    /// A field that other programs of rt-tests omit; then `next` follows: cyclicdeadline has no priority, signaltest no
    /// interval.
    fn value_before(&mut self, label: &str, next: &str) -> Result<Option<u64>, NotImportable> {
        match self.follows(next) {
            true => Ok(None),
            false => self.value(label).map(Some),
        }
    }

    /// The bracket after the thread id.
    fn close(&mut self) -> Result<(), NotImportable> {
        let rest = self.rest.trim_start_matches(' ').strip_prefix(')');
        self.rest =
            rest.ok_or_else(|| at(self.number, format!("a status line without ')': {}", self.line)))?;
        Ok(())
    }

    /// Only the number of SMIs may follow, and the figures must agree.
    fn end(&mut self, cycles: u64, min: u64, max: u64) -> Result<(), NotImportable> {
        if self.follows("SMI:") {
            self.value("SMI:")?;
        }
        match self.rest.trim() {
            "" if cycles > 0 && max < min => {
                let what = format!("the maximum is {max}, but the minimum is {min}: {}", self.line);
                Err(at(self.number, what))
            }
            "" => Ok(()),
            more => Err(at(
                self.number,
                format!("a status line continues after its maximum with '{more}': {}", self.line),
            )),
        }
    }
}

/// Characters between `label` and the blank before the next label: padding and digits.
pub(super) fn width_of(line: &str, label: &str) -> Option<usize> {
    let field = &line[line.find(label)? + label.len()..];
    let digits = field.find(|c: char| c.is_ascii_digit())?;
    Some(field[digits..].find(|c: char| !c.is_ascii_digit()).unwrap_or(field.len() - digits) + digits)
}

#[cfg(test)]
mod tests {
    use super::super::{read, Unit};
    use super::*;
    use crate::time::{Cpu, Ns};

    #[test]
    fn lines_of_other_programs_of_rt_tests_lack_a_field() {
        let read = |line: &str| read(line, Unit::Us).unwrap().series.remove(0);
        let signal = read("T: 0 (29745) P: 0 C:    500 Min:     30 Act:   82 Avg:  347 Max:    7886\n");
        assert_eq!((signal.quantity, signal.interval_ns), (Quantity::Wakeup, None));
        assert_eq!(signal.histogram.max(), Some(Ns::from_us(7_886)));
        let deadline = read("T: 0 (29745) I:1000 C:    500 Min:     30 Act:   82 Avg:  347 Max:    7886\n");
        assert_eq!(deadline.quantity, Quantity::Cyclic);
        assert_eq!(deadline.thread.and_then(|thread| thread.prio), None);
    }

    #[test]
    fn the_lines_of_jitterdebugger_name_their_cpu() {
        let text = "affinity: 2-3 = 2 [0xC]\n\
                    T: 0 ( 1599) A: 2 C:    593447 Min:         2 Avg:    2.97 Max:        59 \n\
                    T: 1 ( 1600) A: 3 C:    593440 Min:         1 Avg:    2.08 Max:        26 \n";
        let run = read(text, Unit::Guess).unwrap();
        let figures = |index: usize| {
            let series = &run.series[index];
            (series.cpu, series.histogram.count() + series.lost, series.histogram.max(), series.missed)
        };
        assert_eq!(figures(0), (Some(Cpu(2)), 593_447, Some(Ns::from_us(59)), None));
        assert_eq!(figures(1), (Some(Cpu(3)), 593_440, Some(Ns::from_us(26)), None));
        assert!(run.conditions.notes[0].contains("jitterdebugger"), "{:?}", run.conditions.notes);
        assert!(run.complete, "no sample is above the maximum");
        let old = "T: 0 ( 1599) A: 2 C:   1762537 Min:         2 Max:        59 Avg:    2.97 \n";
        assert!(read(old, Unit::Guess).unwrap_err().what.contains("the sum of the latencies"));
        for (good, bad) in [("   2.97", "   2,97"), ("59 ", "5.9 "), ("59 ", " 1 "), ("   2.97", " 2.9.7")] {
            assert!(read(&text.replacen(good, bad, 1), Unit::Guess).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_number_that_goes_on_is_refused_and_none_is_read_in_part() {
        let line = |max: &str| {
            format!("T: 0 ( 8439) P:80 I:1000 C:   1996 Min:      4 Act:    6 Avg:   18 Max:{max}")
        };
        let good = read(&line("    2925"), Unit::Guess).unwrap();
        assert_eq!(good.series[0].histogram.max(), Some(Ns::from_us(2_925)));
        assert_eq!(good.series[0].missed, None, "the text does not say");
        let other = line("    2925").replace("T: 0", "T: 1");
        let wrong = [
            "   2.925".to_owned(),
            "   2,925".to_owned(),
            "   2 925".to_owned(),
            "   2'925".to_owned(),
            "      -5".to_owned(),
            "       3".to_owned(), // below the minimum
            "    2925us".to_owned(),
            "    2e3".to_owned(),
            "    ".to_owned(),
            "    99999999999999999999".to_owned(),
            format!("      29 {other}"),
            format!("      29{other}"),
            format!("      29\r{other}"),
            "      29\r25".to_owned(),
        ];
        for max in wrong {
            let error = read(&line(&max), Unit::Guess).expect_err(&max);
            assert_eq!(error.line, Some(1), "{max}: {error}");
        }
        for (good, bad) in
            [("C:   1996", "C:  1.996"), ("Min:      4", "Min:     -4"), ("Avg:   18", "Avg: 18.5")]
        {
            assert!(read(&line("    2925").replace(good, bad), Unit::Guess).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_release_is_missed_only_during_a_latency_above_the_interval() {
        let missed = |interval: u64, max: &str, unit| {
            let line =
                format!("T: 0 ( 8439) P:80 I:{interval} C:   1996 Min:      4 Act:    6 Avg:   18 Max:{max}");
            read(&line, unit).unwrap().series[0].missed
        };
        assert_eq!(missed(1_000, "     999", Unit::Us), Some(0));
        assert_eq!(missed(1_000, "    1000", Unit::Us), None);
        assert_eq!(missed(1_000, "  999999", Unit::Ns), Some(0));
        assert_eq!(missed(u64::MAX, "     999", Unit::Us), Some(0));
        let other = "T: 0 (29745) I:1000 C:    500 Min:     30 Act:   82 Avg:  347 Max:     886\n";
        assert_eq!(read(other, Unit::Us).unwrap().series[0].missed, None, "cyclicdeadline");
    }

    #[test]
    fn runs_that_wrote_into_one_text_in_turns_are_counted_once() {
        let line = |tid, cycles, max| {
            format!("T: 0 ({tid:5}) P:80 I:1000 C:{cycles:7} Min:      5 Act:   10 Avg:   10 Max:{max:8}\n")
        };
        let text: String =
            (1..=10).flat_map(|turn| [line(100, turn * 100, 20 + turn), line(200, turn * 90, 50)]).collect();
        let run = read(&text, Unit::Guess).unwrap();
        let series = &run.series[0];
        assert_eq!(series.histogram.count() + series.lost, 1_900);
        assert_eq!(series.histogram.max(), Some(Ns::from_us(50)));
        assert!(
            run.conditions.notes.iter().any(|note| note.contains("has 2 runs")),
            "{:?}",
            run.conditions.notes
        );
    }
}
