//! Measures which alarm is more precise on this machine and kernel: both are tried at start, on the thread that will
//! use them.

use std::cell::Cell;
use std::io;

use crate::alarm::{Alarm, Mechanism};
use crate::clock::monotonic;
use crate::config::{Config, Preemption};

/// Expirations tried per mechanism, their interval, and the longest wait for one, in ns.
const TRIES: usize = 15;
const DISTANCE: u64 = 60_000;
const LOST: u64 = 10_000_000;

/// Lateness of the handler, in ns: median and worst of the tries; `None`: not tried, or a signal never came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Of the POSIX timer.
    pub timer: Option<(u64, u64)>,
    /// Of the helper thread.
    pub helper: Option<(u64, u64)>,
}

thread_local! {
    static CAME: Cell<u64> = const { Cell::new(0) };
}

/// The handler while there is no runtime.
pub(crate) fn on_signal() {
    CAME.set(monotonic());
}

/// The configured alarm, or the better one.
pub(crate) fn choose(config: &Config) -> io::Result<(Option<Alarm>, Measured)> {
    let priority = config.kernel_priority.map(|priority| priority + 1);
    let mut measured = Measured::default();
    let alarm = match config.preemption {
        Preemption::None => None,
        Preemption::Timer => Some(Alarm::new(Mechanism::Timer, None)?),
        Preemption::Helper => Some(Alarm::new(Mechanism::Helper, priority)?),
        Preemption::Measure => {
            let timer = Alarm::new(Mechanism::Timer, None)?;
            let helper = Alarm::new(Mechanism::Helper, priority);
            measured.timer = lateness(&timer);
            measured.helper = helper.as_ref().ok().and_then(lateness);
            let better = match (measured.timer, measured.helper) {
                (Some(timer), Some(helper)) => helper.0 < timer.0,
                (timer, _) => timer.is_none(),
            };
            match helper {
                Ok(helper) if better => Some(helper),
                _ => Some(timer),
            }
        }
    };
    Ok((alarm, measured))
}

fn lateness(alarm: &Alarm) -> Option<(u64, u64)> {
    let mut late = [0; TRIES];
    for slot in &mut late {
        CAME.set(0);
        let due = monotonic() + DISTANCE;
        alarm.set(due);
        // Busy, like a thread that is to be preempted.
        while CAME.get() == 0 {
            if monotonic() > due + LOST {
                return None;
            }
        }
        *slot = CAME.get().saturating_sub(due);
    }
    late.sort_unstable();
    Some((late[TRIES / 2], late[TRIES - 1]))
}
