//! A line on the terminal while a command computes: without it, a long computation looks like one that hangs.

use std::sync::mpsc::{channel, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::out;

/// Shows the line from the second second on, until it is dropped. Shows nothing if stderr is not a terminal.
pub struct Working(Option<(Sender<()>, JoinHandle<()>)>);

impl Working {
    /// `what`: the command, and what it does.
    #[must_use]
    pub fn show(what: &str) -> Working {
        if !out::can_draw() {
            return Working(None);
        }
        let (end, ended) = channel();
        let (what, begun) = (what.to_owned(), Instant::now());
        let draw = move || {
            let mut drawn = false;
            while ended.recv_timeout(Duration::from_secs(1)) == Err(RecvTimeoutError::Timeout) {
                eprint!("\r{what}, {} s (Ctrl-C ends it)\x1b[K", begun.elapsed().as_secs());
                drawn = true;
            }
            if drawn {
                eprint!("\r\x1b[K");
            }
        };
        // Without a thread, the computation is only silent.
        let thread = std::thread::Builder::new().spawn(draw);
        Working(thread.ok().map(|thread| (end, thread)))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join(); // it only draws
        }
    }
}
