//! One line on a terminal, once a second, for measurements without other output until they end; elsewhere
//! nothing.

use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lathunt_core::time::Ns;

/// Shows the progress of a measurement of known length, until it is dropped.
pub struct Ticker(Option<(Sender<()>, JoinHandle<()>)>);

impl Ticker {
    /// Starts now. `what` names the activity.
    #[must_use]
    pub fn start(what: &'static str, length: Ns) -> Ticker {
        if !crate::out::can_draw() {
            return Ticker(None);
        }
        let (end, ended) = channel();
        let begin = Instant::now();
        let show = move || {
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                eprint!("\r{}\x1b[K", line(what, begin.elapsed(), length));
            }
            eprint!("\r\x1b[K");
        };
        Ticker(lathunt_host::threads::spawn(show).ok().map(|thread| (end, thread)))
        // no thread: silent
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join(); // it only draws
        }
    }
}

fn line(what: &str, elapsed: Duration, length: Ns) -> String {
    let whole = Duration::from_nanos(length.0).as_secs_f64();
    let share = (100.0 * elapsed.as_secs_f64() / whole.max(1e-9)).min(100.0);
    format!("{what}: {:.0} s of {whole:.0} s, {share:.0} %", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_never_promises_more_than_the_whole() {
        assert_eq!(
            line("watching", Duration::from_secs(30), Ns::from_ms(120_000)),
            "watching: 30 s of 120 s, 25 %"
        );
        assert_eq!(
            line("watching", Duration::from_secs(130), Ns::from_ms(120_000)),
            "watching: 130 s of 120 s, 100 %"
        );
    }
}
