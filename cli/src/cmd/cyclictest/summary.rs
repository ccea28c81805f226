//! What is printed and written at the end.

use std::time::{SystemTime, UNIX_EPOCH};

use lathunt_core::cyclictest::json;
use lathunt_core::cyclictest::text::{self, Figures};
use lathunt_core::time::Ns;
use lathunt_host::instrument::cyclic::ThreadResult;

use super::super::cyclic::BreakWatch;
use super::session::{path_of, Session};
use super::{machine, output, warn, Failure};
use crate::file::write_atomic;

impl Session {
    pub(super) fn summary(
        &mut self,
        results: &[ThreadResult],
        broke: Option<(usize, Ns)>,
        watch: Option<Box<dyn BreakWatch>>,
    ) -> Result<(), Failure> {
        let smis = |index| self.smis.get(index).map(machine::SmiCounter::count);
        let figures: Vec<Figures> = results
            .iter()
            .enumerate()
            .map(|(index, result)| {
                let live = output::last_state(result);
                let mut figures = output::figures(&self.options, &self.plan, index, &live, smis(index));
                if let Some(latencies) = &mut figures.latencies {
                    latencies.avg = self.sums[index].get() / figures.cycles.max(1);
                }
                figures
            })
            .collect();
        let unit = output::unit(&self.options);
        let broke = broke.map(|(thread, latency)| (thread, latency.0 / unit));
        let shown = if self.options.verbose {
            self.print_samples()
        } else if !self.options.quiet {
            self.print_screen(&figures)
        } else {
            Ok(())
        };
        // A file that cannot be written does not take along what stdout is to show, nor the other way round.
        let written = self.write_json(results, broke);
        let printed = self.print_figures(results, &figures, broke, watch);
        if self.lost > 0 {
            warn(&format!("{} samples were overwritten before -v could print them", self.lost));
        }
        shown.and(written).and(printed)
    }

    fn print_figures(
        &mut self,
        results: &[ThreadResult],
        figures: &[Figures],
        broke: Option<(usize, u64)>,
        watch: Option<Box<dyn BreakWatch>>,
    ) -> Result<(), Failure> {
        if self.options.quiet && self.options.histogram.is_none() {
            self.print(&text::status_lines(figures, self.options.nsecs))?;
        }
        if let Some(spikes) = self.spikes.clone() {
            let (kept, count) = spikes.collect();
            self.print(&text::spikes(&kept, count))?;
        }
        let histogram = self.print_histogram(results, figures);
        if self.options.breaktrace > 0 {
            let tids: Vec<i32> = figures.iter().map(|figures| figures.tid).collect();
            self.print(&text::breaktrace(&tids, broke.map(|(thread, value)| (tids[thread], value))))?;
            let explanation = watch.filter(|_| broke.is_some()).map(|watch| watch.explain(results));
            for line in explanation.unwrap_or_default() {
                self.print(&format!("# {line}\n"))?;
            }
        }
        histogram
    }

    fn print_histogram(&mut self, results: &[ThreadResult], figures: &[Figures]) -> Result<(), Failure> {
        if self.options.histogram.is_none() {
            return Ok(());
        }
        let columns: Vec<text::Column> = results
            .iter()
            .zip(figures)
            .enumerate()
            .map(|(index, (result, figures))| {
                let overflows = self.overflows.get(index).map(AsRef::as_ref);
                output::column(&self.options, result, figures, overflows)
            })
            .collect();
        let block = text::histogram(&columns, self.options.histofall);
        match &self.options.histfile {
            // what was measured is not lost with the file
            Some(path) => write_file(path, &block).or_else(|failure| self.print(&block).and(Err(failure))),
            None => self.print(&block),
        }
    }

    fn write_json(&mut self, results: &[ThreadResult], broke: Option<(usize, u64)>) -> Result<(), Failure> {
        let Some(path) = self.options.json.clone() else { return Ok(()) };
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let names = machine::Names::read();
        let threads: Vec<json::Thread> = results
            .iter()
            .enumerate()
            .map(|(index, result)| {
                output::json_thread(&self.options, &self.plan, index, result, self.sums[index].get())
            })
            .collect();
        let text = json::write(&json::Report {
            command: &self.command,
            start: &json::rfc2822(seconds(self.started)),
            end: &json::rfc2822(seconds(SystemTime::now())),
            return_code: 0,
            system: json::System {
                sysname: &names.sysname,
                nodename: &names.nodename,
                release: &names.release,
                version: &names.version,
                machine: std::env::consts::ARCH,
                realtime: machine::is_realtime_kernel(),
            },
            nsecs: self.options.nsecs,
            threshold: (self.options.breaktrace > 0).then_some((self.options.breaktrace, broke)),
            threads: &threads,
        });
        if path == b"-" {
            self.print(&text)
        } else {
            write_file(&path, &text)
        }
    }
}

fn write_file(path: &[u8], text: &str) -> Result<(), Failure> {
    write_atomic(&path_of(path), text.as_bytes()).map_err(|error| format!("{error:#}"))
}
