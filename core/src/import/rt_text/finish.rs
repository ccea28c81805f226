//! What the whole text must fulfil, after its last line: histogram, footer and status lines of one run agree.

use super::super::{at, File, FromFile, NotImportable, Unit, MOST_THREADS};
use super::Reader;

/// A text of which no line is a result.
const UNKNOWN: &str = "no histogram row, status line or sample of a known format: it is not the text or JSON of cyclictest or \
    another program of rt-tests, rtla, jitterdebugger, Xenomai's latency, EVL's latmus or a latency box, nor the XML of rteval, \
    nor a histogram of kernel events";

fn too_many() -> NotImportable {
    NotImportable { line: None, what: "its counts add up to more than 2^64".to_owned() }
}

impl Reader {
    /// The file, if its parts agree.
    pub(super) fn finish(mut self, unit: Unit) -> Result<File, NotImportable> {
        self.take_summary()?;
        if self.file.threads.is_empty() {
            let what = match self.footer.is_empty() {
                true => UNKNOWN,
                false => "the lines below a histogram of cyclictest without its rows: the number of samples is not known",
            };
            return Err(NotImportable { line: None, what: what.to_owned() });
        }
        for (index, status) in std::mem::take(&mut self.status).threads() {
            self.file.threads[index].take_status(status);
        }
        let ns = unit == Unit::Ns || (unit == Unit::Guess && self.wide);
        self.file.unit = if ns { 1 } else { 1_000 };
        self.file.unit_assumed = unit == Unit::Guess && !self.wide && !self.narrow;
        if let Some(columns) = self.columns {
            let minima = self.footer.iter().find(|(_, label, _)| label == "Min Latencies");
            // Two equal columns may be two threads, and empty ones say nothing.
            let tells = columns > 2 && self.file.threads.iter().any(|thread| !thread.rows.is_empty());
            let without = if tells && self.last_column_is_the_sum() { columns - 1 } else { columns };
            let threads = minima.map_or(without, |(_, _, values)| values.len());
            self.sums = columns == threads + 1 && self.last_column_is_the_sum();
            self.check_columns(columns, threads)?;
            self.file.threads.truncate(threads);
        }
        if self.file.threads.iter().any(|thread| thread.inside().is_none()) {
            return Err(too_many());
        }
        let footer = std::mem::take(&mut self.footer);
        for (number, label, values) in &footer {
            self.apply(*number, label, values)?;
        }
        self.apply_breaks();
        if self.columns.is_some() {
            self.check_rows(&footer)?;
            self.check_footer(&footer)?;
            self.check_maxima(&footer)?;
        }
        for thread in
            self.file.threads.iter_mut().filter(|thread| !thread.rows.is_empty() || self.columns.is_some())
        {
            let all = thread.inside().and_then(|inside| inside.checked_add(thread.overflows.unwrap_or(0)));
            thread.cycles = Some(all.ok_or_else(too_many)?).max(thread.cycles);
            thread.samples.clear(); // the same samples, possibly incomplete
            thread.absent = 0;
        }
        Ok(self.file)
    }

    /// The lines below a histogram whose rows are not in the text, as `grep '^#'` leaves them. `# Total:` counts the
    /// samples of the rows, without those beyond them (print_hist in rt-tests 2.6), so that both are needed.
    fn take_summary(&mut self) -> Result<(), NotImportable> {
        if self.columns.is_some() || !self.file.threads.is_empty() {
            return Ok(());
        }
        let values = |wanted: &str| self.footer.iter().find(|(_, label, _)| label == wanted);
        let needed = ["Total", "Histogram Overflows", "Min Latencies", "Max Latencies"].map(values);
        let [Some((number, _, totals)), Some((_, _, beyond)), Some((_, _, minima)), Some(_)] = needed else {
            return Ok(());
        };
        let count = minima.len();
        let sum = totals.get(..count).map(|each| each.iter().fold(0u64, |sum, one| sum.saturating_add(*one)));
        let is_of_all = totals.len() == count || (totals.len() == count + 1 && totals.last() == sum.as_ref());
        if !is_of_all || count > MOST_THREADS {
            let what = format!("'# Total:' has {} values for {count} threads", totals.len());
            return Err(at(*number, what));
        }
        let samples = |(inside, beyond): (&u64, &u64)| inside.checked_add(*beyond).ok_or_else(too_many);
        let of_thread = |samples| FromFile { cycles: Some(samples), ..FromFile::default() };
        let each = totals.iter().take(count).zip(beyond).map(|pair| samples(pair).map(of_thread));
        self.file.threads = each.collect::<Result<_, _>>()?;
        self.footer.retain(|(_, label, _)| label != "Total");
        Ok(())
    }

    /// Rows without a sample are left out since rt-tests 2.7, which has no line `# Total:` (src/lib/histogram.c,
    /// hset_print_bucket). Older versions print all rows, and scripts leave out those: the line `# Total:` proves that
    /// no other row is missing.
    fn check_rows(&mut self, footer: &[(usize, String, Vec<u64>)]) -> Result<(), NotImportable> {
        match self.gap.take().filter(|_| footer.is_empty()) {
            Some((number, what)) => Err(at(number, what)),
            None => Ok(()),
        }
    }

    /// Without its footer, a histogram lacks the samples beyond its rows, and so the worst case.
    fn check_footer(&mut self, footer: &[(usize, String, Vec<u64>)]) -> Result<(), NotImportable> {
        let has = |wanted: &str| footer.iter().any(|(_, label, _)| label == wanted);
        let missing = ["Max Latencies", "Histogram Overflows"].into_iter().find(|wanted| !has(wanted));
        let Some(missing) = missing else { return Ok(()) };
        if self.headed || !footer.is_empty() {
            let what = format!("the histogram has no line '# {missing}:': truncated?");
            return Err(NotImportable { line: None, what });
        }
        self.file.rows_alone = self.file.threads.iter().all(|thread| thread.max.is_none());
        Ok(())
    }

    fn check_maxima(&self, footer: &[(usize, String, Vec<u64>)]) -> Result<(), NotImportable> {
        let Some(what) = self.file.threads.iter().find_map(|thread| thread.contradiction(self.file.rows))
        else {
            return Ok(());
        };
        let line = footer.iter().find(|(_, label, _)| label == "Max Latencies").map(|(number, _, _)| *number);
        Err(NotImportable { line, what })
    }

    fn apply_breaks(&mut self) {
        for (number, latency) in std::mem::take(&mut self.breaks) {
            match number.and_then(|number| self.file.threads.get_mut(number)) {
                Some(thread) => {
                    thread.max = thread.max.max(Some(latency));
                    thread.cycles = thread.cycles.max(Some(1));
                }
                None => self.file.break_of_nobody = self.file.break_of_nobody.max(Some(latency)),
            }
        }
        if self.broke.is_some() {
            self.file.break_of_nobody = self.file.break_of_nobody.max(Some(0)); // its latency was cut off
        }
    }

    /// In each row the last count is the sum of the others, as with `-H`.
    fn last_column_is_the_sum(&self) -> bool {
        let Some((last, others)) = self.file.threads.split_last() else { return false };
        let mut sums = std::collections::BTreeMap::new();
        for &(latency, count) in others.iter().flat_map(|thread| &thread.rows) {
            let sum: &mut u64 = sums.entry(latency).or_default();
            *sum = sum.saturating_add(count);
        }
        last.rows.iter().copied().eq(sums)
    }

    fn check_columns(&self, columns: usize, threads: usize) -> Result<(), NotImportable> {
        if columns == threads || self.sums {
            return Ok(());
        }
        let what = format!("the histogram has {columns} columns, the lines below it {threads}");
        Err(NotImportable { line: self.footer.first().map(|(number, _, _)| *number), what })
    }

    fn apply(&mut self, number: usize, label: &str, values: &[u64]) -> Result<(), NotImportable> {
        let threads = self.file.threads.len();
        let (ids, sums) = (label == "Thread Ids", self.sums);
        if values.len() < threads || values.len() > threads + usize::from(sums) {
            let what = format!("'# {label}:' has {} values for {threads} threads", values.len());
            return Err(at(number, what));
        }
        for (thread, &value) in self.file.threads.iter_mut().zip(values) {
            let inside = thread.inside().unwrap_or(u64::MAX);
            match label {
                "Total" if inside != value => {
                    return Err(at(
                        number,
                        format!("'# Total:' says {value}, the rows add up to {inside}: truncated?"),
                    ));
                }
                "Min Latencies" => thread.min = Some(value),
                "Avg Latencies" => thread.avg = Some(value as f64),
                "Max Latencies" => thread.max = thread.max.max(Some(value)), // not below a status line's
                "Histogram Overflows" => thread.overflows = Some(value),
                _ if ids => thread.tid = i32::try_from(value).ok(),
                _ => {}
            }
        }
        Ok(())
    }
}
