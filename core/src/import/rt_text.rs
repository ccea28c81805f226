//! The text of cyclictest, line by line.

mod finish;

use super::status::{self, width_of, Status};
use super::{at, File, FromFile, NotImportable, Unit, MOST_THREADS};

type Line<'a> = (usize, &'a str);

/// Reads a text; of each thread's status lines, the last one of each run is used.
pub(super) fn parse(text: &str, unit: Unit) -> Result<File, NotImportable> {
    let mut reader = Reader {
        file: File::default(),
        columns: None,
        gap: None,
        headed: false,
        is_heading_there: text.lines().any(|line| line.trim() == "# Histogram"),
        is_inside: false,
        wide: false,
        narrow: false,
        status: Status::default(),
        sums: false,
        footer: Vec::new(),
        broke: None,
        breaks: Vec::new(),
    };
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, plain(line))).peekable();
    while let Some((number, line)) = lines.next() {
        if lines.peek().is_none() && !text.ends_with('\n') && ends_in_a_number_cut_short(&line) {
            return Err(at(number, format!("the text ends inside a number, it is cut off: {line}")));
        }
        reader.line((number, &line))?;
    }
    reader.finish(unit)
}

/// Whether the last number of a line is narrower than cyclictest prints it. A truncated maximum would be read as a
/// tenth of its value. If a script squeezed blanks, the widths are unknown.
fn ends_in_a_number_cut_short(line: &str) -> bool {
    let last_field = line.rsplit(':').next().unwrap_or_default();
    if let Some((_, line)) = status::find(line) {
        return width_of(line, "Min:").is_some_and(|width| width >= 7) && last_field.len() < 8;
    }
    if let Some(comment) = line.strip_prefix('#') {
        let label = comment.split(':').next().unwrap_or_default().trim();
        let last = last_field.split_whitespace().last().unwrap_or_default();
        let padded = label == "Total" || label.ends_with(" Latencies") || label == "Histogram Overflows";
        return padded && last.len() < 5 && last.bytes().all(|b| b.is_ascii_digit());
    }
    line.starts_with("  ") && line.matches(':').count() == 2 && last_field.len() < 8
}

/// Without terminal escape sequences, CR LF line ends and the quotes of Markdown around it. A carriage return inside a line is kept: without it two
/// numbers would become one.
fn plain(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let line = line.trim_end_matches('\r');
    let quoted = line.strip_prefix('`').and_then(|line| line.strip_suffix('`'));
    let mut characters = quoted.unwrap_or(line).chars();
    while let Some(c) = characters.next() {
        match c {
            '\x1b' => {
                let _ = characters.by_ref().skip_while(|c| *c == '[').find(|c| c.is_ascii_alphabetic());
            }
            other => out.push(other),
        }
    }
    out
}

/// Other programs with rows like those of cyclictest, by their heading.
fn of_another_program(line: &str) -> Option<&'static str> {
    let words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
    match words[..] {
        ["RTLA", "timerlat", ..] | ["Timer", "Latency"] => Some("the output of rtla timerlat"),
        ["RTLA", "osnoise", ..] => Some("the output of rtla osnoise"),
        ["RTLA", ..] => Some("the output of rtla"),
        ["Index", column, ..] if column.contains('-') => Some("a histogram of rtla"),
        _ => None,
    }
}

/// The load average, which old versions print above the status lines: `0.07 0.02 0.00 1/63 2312`.
fn is_load(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], [_, _, _, threads, _] if threads.contains('/'))
        && words[..3].iter().all(|word| word.contains('.') && word.parse::<f64>().is_ok())
}

struct Reader {
    file: File,
    /// Columns of a histogram row, from the first one.
    columns: Option<usize>,
    /// The first row after one that is not in the text.
    gap: Option<(usize, String)>,
    /// The header before the first row was found: the footer must exist, too.
    headed: bool,
    /// The text has this header.
    is_heading_there: bool,
    /// Rows may follow: after the header, before the footer.
    is_inside: bool,
    /// A status line has the columns of `-N`.
    wide: bool,
    /// A status line has the columns of µs.
    narrow: bool,
    /// The status lines.
    status: Status,
    /// The last column is the sum of the others (`-H`).
    sums: bool,
    /// Values of the lines below the histogram.
    footer: Vec<(usize, String, Vec<u64>)>,
    /// The thread that ended the run (`-b`) by its tid, until its latency is read.
    broke: Option<u64>,
    /// Latencies that ended a run, with their thread number. They may be nowhere else: without `-q` the last status
    /// line is older.
    breaks: Vec<(Option<usize>, u64)>,
}

impl Reader {
    /// `6.12.0-rc5`: a single word before the first row.
    fn is_heading(&self, line: &str) -> bool {
        let word = line.trim();
        let is_word = !word.contains(char::is_whitespace)
            && word.contains(|c: char| c.is_ascii_alphabetic() || c == '.');
        self.columns.is_none() && !self.headed && is_word
    }

    /// A line with words outside the histogram, where no row can be: `2 more runs follow`.
    fn is_prose(&self, line: &str) -> bool {
        let is_word = |word: &str| word.starts_with(|c: char| c.is_alphabetic());
        self.is_heading_there && !self.is_inside && line.split_whitespace().any(is_word)
    }

    fn line(&mut self, (number, line): Line<'_>) -> Result<(), NotImportable> {
        // scripts may print the command line in front of the first line of the output
        if let Some((command, us)) = line.split_once("# /dev/cpu_dma_latency set to ") {
            self.file.dma_latency_us = us.trim().trim_end_matches("us").parse().ok();
            self.file.conditions.command = Some(command.trim().to_owned()).filter(|text| !text.is_empty());
            return Ok(());
        }
        if let Some((before, line)) = status::find(line) {
            if before.split_whitespace().next().is_some_and(|word| word.ends_with("cyclictest")) {
                self.file.conditions.command = Some(before.trim().to_owned());
            }
            return if line.contains("Spike:") { Ok(()) } else { self.status((number, line)) };
        }
        if let Some(program) = of_another_program(line) {
            return Err(at(
                number,
                format!("this is {program}, not the output of cyclictest: {}", line.trim()),
            ));
        }
        if let Some(rest) = line.strip_prefix('#') {
            return self.comment(number, rest);
        }
        if line.starts_with(|c: char| c.is_ascii_digit())
            && !is_load(line)
            && !self.is_heading(line)
            && !self.is_prose(line)
        {
            return self.row((number, line));
        }
        if line.starts_with(' ') && line.matches(':').count() == 2 {
            return self.sample((number, line));
        }
        Ok(()) // screen header, blank lines, output of a wrapper script
    }

    fn thread(&mut self, index: usize, line: usize) -> Result<&mut FromFile, NotImportable> {
        if index >= MOST_THREADS {
            return Err(at(
                line,
                format!("thread number {index} is not possible: no cyclictest has more than {MOST_THREADS} threads"),
            ));
        }
        let threads = &mut self.file.threads;
        if threads.len() <= index {
            threads.resize_with(index + 1, FromFile::default);
        }
        Ok(&mut threads[index])
    }

    fn status(&mut self, (number, line): Line<'_>) -> Result<(), NotImportable> {
        let (index, figures, wide) = status::parse(number, line)?;
        self.wide |= wide;
        if figures.cpu.is_some() {
            self.file.tool = "jitterdebugger";
        }
        self.narrow |= width_of(line, "Act:").is_some_and(|width| (5..8).contains(&width));
        self.thread(index, number)?;
        self.status.add(index, figures);
        Ok(())
    }

    /// `000004 000171\t000005`.
    fn row(&mut self, (number, line): Line<'_>) -> Result<(), NotImportable> {
        let fields: Option<Vec<u64>> = line.split_whitespace().map(|field| field.parse().ok()).collect();
        let Some(fields) = fields.filter(|fields| fields.len() >= 2) else {
            return Err(at(number, format!("a histogram row that is not made of numbers: {line}")));
        };
        let (latency, counts) = (fields[0], &fields[1..]);
        let columns = *self.columns.get_or_insert(counts.len());
        if counts.len() != columns {
            return Err(at(
                number,
                format!("a histogram row of {} columns where {columns} are expected", counts.len()),
            ));
        }
        if latency != self.file.rows {
            let what = format!("histogram row {latency} where row {} is expected", self.file.rows);
            if latency < self.file.rows {
                return Err(at(number, what));
            }
            self.gap.get_or_insert((number, what));
        }
        self.file.rows = latency.saturating_add(1);
        for (index, &count) in counts.iter().enumerate() {
            let thread = self.thread(index, number)?;
            if count > 0 {
                thread.rows.push((latency, count));
            }
        }
        Ok(())
    }

    /// ` 0: 12: 19`, and with `--smi` the number of SMIs.
    fn sample(&mut self, (number, line): Line<'_>) -> Result<(), NotImportable> {
        let (head, value) = line.rsplit_once(':').unwrap_or_default();
        let mut values = value.split_whitespace();
        let (value, smis) = (values.next().unwrap_or_default(), values.next());
        let only = smis.is_none_or(|smis| smis.parse::<u64>().is_ok()) && values.next().is_none();
        let words = head.split(':').map(str::trim).chain([if only { value } else { "" }]);
        let fields: Vec<Option<u64>> = words.map(|word| word.parse().ok()).collect();
        let [Some(index), Some(cycle), Some(value)] = fields[..] else {
            return Err(at(number, format!("a sample that is not thread:cycle:latency: {line}")));
        };
        let thread = self.thread(index as usize, number)?;
        if cycle < thread.next_cycle {
            thread.more_runs += 1; // numbering restarts
            thread.next_cycle = 0;
        }
        thread.absent = thread.absent.saturating_add(cycle - thread.next_cycle);
        thread.next_cycle = cycle.saturating_add(1);
        thread.samples.push(value);
        Ok(())
    }

    fn comment(&mut self, number: usize, text: &str) -> Result<(), NotImportable> {
        let is_heading = text.trim() == "Histogram";
        self.headed |= is_heading;
        self.is_inside |= is_heading;
        let Some((label, values)) = text.split_once(':') else { return Ok(()) };
        let (label, values) = (label.trim(), values.split(" #").next().unwrap_or_default());
        self.is_inside &= !(label == "Total" || label.ends_with(" Latencies"));
        if label == "Break thread" {
            self.broke = values.trim().parse().ok();
            return Ok(());
        }
        if label == "Break value" {
            let Ok(value) = values.trim().parse() else {
                return Err(at(number, "'# Break value:' with a value that is not a number"));
            };
            let thread = self.broke.take().and_then(|tid| self.number_of(tid));
            self.breaks.push((thread, value));
            return Ok(());
        }
        let known =
            ["Total", "Min Latencies", "Avg Latencies", "Max Latencies", "Histogram Overflows", "Thread Ids"];
        if !known.contains(&label) {
            return Ok(());
        }
        let values: Option<Vec<u64>> = values.split_whitespace().map(|value| value.parse().ok()).collect();
        let values =
            values.ok_or_else(|| at(number, format!("'# {label}:' with a value that is not a number")))?;
        self.footer.push((number, label.to_owned(), values));
        Ok(())
    }

    /// Number of the thread with this tid, in the latest run.
    fn number_of(&self, tid: u64) -> Option<usize> {
        match self.footer.iter().rfind(|(_, label, _)| label == "Thread Ids") {
            Some((_, _, tids)) => tids.iter().position(|one| *one == tid),
            None => self.status.number_of(tid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{read, Unit};
    use crate::time::Ns;

    #[test]
    fn the_load_above_the_status_lines_of_old_versions_is_no_row() {
        let old = "0.07 0.02 0.00 1/63 2312          \n\n\
                   T: 0 ( 2304) P:80 I:10000 C:   1000 Min:      12 Act:   22 Avg:   20 Max:      93\n";
        let run = read(old, Unit::Guess).unwrap();
        assert_eq!(run.series[0].histogram.max(), Some(Ns::from_us(93)));
        assert!(read(&old.replace("1/63", "163"), Unit::Guess).is_err(), "a row of something else");
    }

    #[test]
    fn single_samples_are_read_beside_the_count_of_smis() {
        let text = "       0:       0:      33       0\n       0:       1:      35       2\n";
        let series = &read(text, Unit::Guess).unwrap().series[0];
        assert_eq!((series.histogram.count(), series.histogram.max()), (2, Some(Ns::from_us(35))));
        for damaged in [text.replace("      2\n", "     2x\n"), text.replace("       2\n", " 2 3\n")] {
            assert!(read(&damaged, Unit::Guess).is_err(), "{damaged}");
        }
    }

    /// As rt-tests since 2.7 prints them.
    #[test]
    fn rows_without_a_sample_may_be_left_out() {
        let text = "T: 0 (14) P:98 I:1000 C:      6 Min:     10 Act:   17 Avg:   16 Max:      31\n\
                    # Histogram\n000010 000003\n000012 000002\n000031 000001\n# Min Latencies: 00010 # the least\n\
                    # Avg Latencies: 00016\n# Max Latencies: 00031\n# Histogram Overflows: 00000\n\
                    # Histogram Overflow at cycle number:\n# Thread 0: \n";
        let run = read(text, Unit::Guess).unwrap();
        let series = &run.series[0];
        assert_eq!((series.histogram.count(), series.histogram.max()), (6, Some(Ns::from_us(31))));
        assert!(run.complete && series.lost == 0, "{run:?}");
        let quoted = format!("{text}`{}`\n", text.lines().next().unwrap());
        assert_eq!(read(&quoted, Unit::Guess).unwrap().series, run.series);
        let fewer = read(&text.replace("000012 000002\n", ""), Unit::Guess).unwrap();
        assert!(fewer.series[0].lost > 0, "the status line has more samples: {fewer:?}");
        let total = |samples: u32| text.replace("# Min", &format!("# Total: {samples:09}\n# Min"));
        assert_eq!(read(&total(6), Unit::Guess).unwrap().series, run.series, "filtered by a script");
        for wrong in [total(7), text.replace("000012", "000009"), "000010 000003\n".to_owned()] {
            assert!(read(&wrong, Unit::Guess).is_err(), "{wrong}");
        }
        let error = read("# Max Latencies: 00090 00096\n", Unit::Guess).unwrap_err();
        assert!(error.what.contains("without its rows"), "{error}");
    }

    /// `grep '^#'` of a histogram keeps the lines below it, and the number of samples with them.
    #[test]
    fn the_lines_below_a_histogram_are_a_summary_of_it() {
        let text = "# Histogram\n# Total: 000000298 000000299\n# Min Latencies: 00005 00006\n\
                    # Avg Latencies: 00023 00026\n# Max Latencies: 00081 00485\n# Histogram Overflows: 00000 00002\n";
        let run = read(text, Unit::Guess).unwrap();
        let figures = |index: usize| {
            let series = &run.series[index];
            (series.histogram.count() + series.lost, series.histogram.min(), series.histogram.max())
        };
        assert_eq!(figures(0), (298, Some(Ns::from_us(5)), Some(Ns::from_us(81))));
        assert_eq!(
            figures(1),
            (301, Some(Ns::from_us(6)), Some(Ns::from_us(485))),
            "the overflows are beside the rows"
        );
        assert!(run.complete, "no sample is above the maximum");
        let with_sum = text.replace("299\n", "299 000000597\n");
        assert_eq!(read(&with_sum, Unit::Guess).unwrap().series, run.series, "of -H");
        let without = |label: &str| -> String {
            text.lines().filter(|line| !line.contains(label)).map(|line| format!("{line}\n")).collect()
        };
        for label in ["Total", "Min", "Max", "Overflows"] {
            assert!(read(&without(label), Unit::Guess).is_err(), "{label}");
        }
        assert!(read(&text.replace("299\n", "299 000000598\n"), Unit::Guess).is_err());
    }
}
