//! The usual measure of a recorder's cost: two threads on one CPU that wake each other through pipes.
//!
//! Measures CPU time, not wall-clock time, so that other work on the machine matters less.

use std::io::{Read, Write};

use lathunt_core::time::{Cpu, Ns};

use crate::clock;
use crate::error::{Error, Result};
use crate::{sched, threads};

/// Mean CPU time of one round trip (two wake-ups, two switches) over `rounds` on `cpu`, of ordinary threads.
///
/// # Errors
/// If no pipes are available, or `cpu` is not allowed.
pub fn round_trip(cpu: Cpu, rounds: u32) -> Result<Ns> {
    let pipe = || std::io::pipe().map_err(|error| Error::new("open", "a pipe", error));
    let ((there_out, there_in), (back_out, back_in)) = (pipe()?, pipe()?);
    let echo = threads::spawn(move || exchange(cpu, rounds, there_out, back_in, false))?;
    let call = threads::spawn(move || exchange(cpu, rounds, back_out, there_in, true))?;
    let failed = |_| Error::refused("measure", "the round trip", "a thread ended early");
    let took = call.join().map_err(failed)?? + echo.join().map_err(failed)??;
    Ok(Ns(took.0 / u64::from(rounds.max(1))))
}

/// One side: reads and answers, or writes if `first`. Returns its CPU time.
fn exchange(cpu: Cpu, rounds: u32, mut from: impl Read, mut to: impl Write, first: bool) -> Result<Ns> {
    sched::pin(cpu)?;
    let mut byte = [0];
    let begun = cpu_time();
    for _ in 0..rounds {
        let done = match first {
            true => to.write_all(&byte).and_then(|()| from.read_exact(&mut byte)),
            false => from.read_exact(&mut byte).and_then(|()| to.write_all(&byte)),
        };
        done.map_err(|error| Error::new("measure", "the round trip", error))?;
    }
    Ok(cpu_time().saturating_sub(begun))
}

/// CPU time of this thread.
fn cpu_time() -> Ns {
    Ns(clock::read(libc::CLOCK_THREAD_CPUTIME_ID) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_some_time_of_the_cpu() {
        let allowed = std::thread::available_parallelism().is_ok();
        assert!(allowed && round_trip(Cpu(0), 200).unwrap() > Ns(100));
    }
}
