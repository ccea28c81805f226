//! The progress of `lathunt npt`: on a terminal, or when a signal requests it.

use std::time::{Duration, Instant};

use lathunt_core::numbers::counted;
use lathunt_host::instrument::npt::Live;
use lathunt_host::signals;

use super::NptArgs;
use crate::out;

/// One line on a terminal, twice a second.
pub(super) struct Progress {
    shown: bool,
    loops: u64,
    last: Instant,
    drawn: bool,
}

impl Progress {
    pub(super) fn new(args: &NptArgs) -> Progress {
        let shown = !args.quiet && out::can_draw();
        Progress { shown, loops: args.count, last: Instant::now(), drawn: false }
    }

    pub(super) fn show(&mut self, lanes: &[Live]) {
        let asked = signals::take_status_request();
        let due = self.shown && self.last.elapsed() >= Duration::from_millis(500);
        if !asked && !due {
            return;
        }
        self.last = Instant::now();
        let one = |lane: &Live| {
            let longest = lane.longest.map_or("none".to_owned(), |ns| ns.to_string());
            let share = 100.0 * lane.done as f64 / self.loops as f64;
            format!("CPU {}: {share:.0} %, {}, longest {longest}", lane.cpu, counted(lane.gaps, "gap"))
        };
        let line = lanes.iter().map(one).collect::<Vec<_>>().join("; ");
        match self.shown {
            true => eprint!("\r{line}\x1b[K"),
            false => eprintln!("{line}"),
        }
        self.drawn = self.shown;
    }

    pub(super) fn end(&self) {
        if self.drawn {
            eprint!("\r\x1b[K");
        }
    }
}
