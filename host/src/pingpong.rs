//! The usual measure of what a recorder costs: two threads on one CPU that wake each other through pipes.

use std::io::{Read, Write};
use std::time::Instant;

use lathunt_core::time::{Cpu, Ns};

use crate::error::{Error, Result};
use crate::sched;

/// Mean time of one round trip (two wake-ups, two switches) over `rounds` on `cpu`, of ordinary threads.
///
/// # Errors
/// When there are no pipes, or `cpu` is not allowed.
pub fn round_trip(cpu: Cpu, rounds: u32) -> Result<Ns> {
    let pipe = || std::io::pipe().map_err(|error| Error::new("open", "a pipe", error));
    let ((mut there_out, mut there_in), (mut back_out, mut back_in)) = (pipe()?, pipe()?);
    let echo = std::thread::spawn(move || -> std::io::Result<()> {
        let _ = sched::pin(cpu);
        let mut byte = [0];
        for _ in 0..rounds {
            there_out.read_exact(&mut byte)?;
            back_in.write_all(&byte)?;
        }
        Ok(())
    });
    let call = std::thread::spawn(move || -> std::io::Result<u128> {
        let _ = sched::pin(cpu);
        let mut byte = [0];
        let begun = Instant::now();
        for _ in 0..rounds {
            there_in.write_all(&byte)?;
            back_out.read_exact(&mut byte)?;
        }
        Ok(begun.elapsed().as_nanos())
    });
    let failed = |_| Error::refused("measure", "the round trip", "a thread ended early");
    let took =
        call.join().map_err(failed)?.map_err(|error| Error::new("measure", "the round trip", error))?;
    echo.join().map_err(failed)?.map_err(|error| Error::new("measure", "the round trip", error))?;
    Ok(Ns((took / u128::from(rounds.max(1))) as u64))
}
