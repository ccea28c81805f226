//! The keeper's report, one item per line: whether the load started, when it ran, how it ended.

use std::fs::File;
use std::io::Read;

use lathunt_core::conditions::LoadOverTime;
use lathunt_core::time::{Mono, Ns};

use super::activity::{UNWATCHED, WINDOW};

/// Minimum share of one CPU in a window in which the load ran.
const LEAST_SHARE: u64 = 100;
/// In a longer window, from a keeper that was kept from reading in time, only the CPU time used is known.
const LONGEST_WINDOW: Ns = Ns(2_000_000_000);

/// The report so far.
#[derive(Debug)]
pub(super) struct Report {
    pipe: File, // does not block
    part: String,
    is_over: bool,
    start: Option<String>,
    end: Option<String>,
    is_watched: bool,
    ran: Vec<(Mono, Mono)>, // in order, none touches the next
    keeper_used: Ns,
}

impl Report {
    /// Of the keeper at the other end of `pipe`, which does not block.
    pub fn new(pipe: File) -> Report {
        let (part, ran) = (String::new(), Vec::new());
        Report {
            pipe,
            part,
            is_over: false,
            start: None,
            end: None,
            is_watched: true,
            ran,
            keeper_used: Ns::ZERO,
        }
    }

    /// The first line.
    pub fn start(&mut self) -> Option<String> {
        self.read();
        self.start.clone().or_else(|| self.is_over.then(|| KILLED.to_owned()))
    }

    /// How the load ended by itself.
    pub fn end(&mut self) -> Option<String> {
        self.read();
        self.end.clone().or_else(|| self.is_over.then(|| KILLED.to_owned()))
    }

    /// CPU time that the keeper used for itself.
    pub fn keeper_used(&self) -> Ns {
        self.keeper_used
    }

    /// When the load ran between `begin` and `end`; `None`: it could not be watched.
    pub fn over_time(&self, begin: Mono, end: Mono, may_pause: bool) -> Option<LoadOverTime> {
        let (mut ran, mut pause, mut since) = (Ns::ZERO, Ns::ZERO, begin);
        for &(from, to) in &self.ran {
            let (from, to) = (from.max(begin), to.min(end));
            if from < to {
                ran = ran + to.since(from);
                pause = pause.max(from.since(since));
                since = to;
            }
        }
        let longest_pause_ns = pause.max(end.since(since));
        self.is_watched.then_some(LoadOverTime { ran_ns: ran, longest_pause_ns, may_pause })
    }

    /// Reads the lines that have arrived. Never blocks.
    pub fn read(&mut self) {
        let mut bytes = [0; 1024];
        loop {
            match self.pipe.read(&mut bytes) {
                Ok(0) => self.is_over = true,
                Ok(length) => {
                    self.part.push_str(&String::from_utf8_lossy(&bytes[..length]));
                    continue;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => {}
            }
            break;
        }
        let Some((whole, part)) = self.part.rsplit_once('\n') else { return };
        let (whole, part) = (whole.to_owned(), part.to_owned());
        self.part = part;
        whole.lines().for_each(|line| self.take(line.trim()));
    }

    fn take(&mut self, line: &str) {
        match line.split_ascii_whitespace().next() {
            _ if self.start.is_none() => self.start = Some(line.to_owned()),
            Some(WINDOW) => self.window(line),
            Some(UNWATCHED) => self.is_watched = false,
            _ => self.end = Some(line.to_owned()),
        }
    }

    fn window(&mut self, line: &str) {
        let figures: Vec<u64> =
            line.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        let [end, length, used, keeper, runnable] = figures[..] else { return };
        self.keeper_used = Ns(keeper);
        let begin = Mono(end.saturating_sub(length));
        // On a busy machine it may get less, or the keeper may come late: then it still waits for a CPU.
        let ran = match used > 0 && used >= length / LEAST_SHARE {
            _ if runnable > 0 => length,
            true if Ns(length) > LONGEST_WINDOW => length.min(used),
            true => length,
            false => return,
        };
        let until = Mono(begin.0 + ran);
        match self.ran.last_mut() {
            Some((_, last)) if *last >= begin => *last = until,
            _ => self.ran.push((begin, until)),
        }
    }
}

/// The end of a keeper that reports none.
const KILLED: &str = "its keeper was killed";

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn report(windows: &[(u64, u64, u64)], runnable: u64) -> Report {
        let mut report = Report::new(File::open("/dev/null").unwrap());
        report.take("started");
        for (end, length, used) in windows {
            report.take(&format!("{WINDOW} {} {} {} 7 {runnable}", end * MS, length * MS, used * MS));
        }
        report
    }

    fn over_time(windows: &[(u64, u64, u64)], begin: u64, end: u64) -> (u64, u64) {
        let over_time = report(windows, 0).over_time(Mono(begin * MS), Mono(end * MS), false).unwrap();
        (over_time.ran_ns.0 / MS, over_time.longest_pause_ns.0 / MS)
    }

    #[test]
    fn windows_are_cut_at_the_ends_of_the_measurement_and_those_without_work_are_pauses() {
        let windows = [
            (1_000, 1_000, 900),
            (2_000, 1_000, 10),
            (3_000, 1_000, 9),
            (4_000, 1_000, 0),
            (5_000, 1_000, 2_000),
        ];
        assert_eq!(over_time(&windows, 0, 5_000), (3_000, 2_000));
        assert_eq!(over_time(&windows, 1_500, 4_300), (800, 2_000));
        assert_eq!(over_time(&windows, 2_500, 3_500), (0, 1_000));
        assert_eq!(over_time(&[], 0, 5_000), (0, 5_000), "time that was not watched");
        assert_eq!(over_time(&[(20, 20, 0), (1_020, 1_000, 500)], 0, 1_020), (1_000, 20));
    }

    #[test]
    fn a_window_that_took_too_long_counts_for_the_time_used_only() {
        assert_eq!(over_time(&[(1_000, 1_000, 2_000), (8_000, 7_000, 600)], 0, 8_000), (1_600, 6_400));
        assert_eq!(over_time(&[(8_000, 8_000, 15_000)], 0, 8_000), (8_000, 0));
    }

    #[test]
    fn a_load_that_gets_little_of_a_busy_machine_did_not_pause() {
        for window in [(8_000, 8_000, 600), (8_000, 1_000, 3), (8_000, 1_000, 0)] {
            let busy = report(&[window], 3).over_time(Mono(7_500 * MS), Mono(8_000 * MS), false).unwrap();
            assert_eq!((busy.ran_ns, busy.longest_pause_ns), (Ns::from_ms(500), Ns::ZERO));
        }
    }

    #[test]
    fn where_proc_shows_nothing_nothing_is_said() {
        let mut report = report(&[], 0);
        report.take(UNWATCHED);
        assert_eq!((report.over_time(Mono(0), Mono(9), true), report.end.clone()), (None, None));
        report.take("exit status 3 after 1.0 s");
        assert_eq!(report.end().as_deref(), Some("exit status 3 after 1.0 s"));
    }
}
