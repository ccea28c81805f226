//! The cost of recording on this machine: round trips through a pipe, alternately without and with the recorder.

use lathunt_core::run::AssumedPenalty;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::pingpong::round_trip;
use lathunt_host::recorder::Recorder;
use lathunt_host::recording::Settings;

use super::potential::Running;

const TURNS: usize = 15;
const ROUND_TRIPS: u32 = 5_000;

/// Measures on the last recorded CPU, with the settings of the recording to come. Takes some seconds. `potential` starts
/// its other recorders: the events of potential latencies are the most frequent of all.
///
/// # Errors
/// If the recorder cannot be started.
pub fn measure(
    settings: &Settings,
    potential: impl Fn() -> anyhow::Result<Running>,
) -> anyhow::Result<AssumedPenalty> {
    let cpu = settings.cpus.iter().next_back().unwrap_or(Cpu(0));
    let options = settings.recorder(None);
    let (mut bare, mut recorded) = (Vec::new(), Vec::new());
    round_trip(cpu, ROUND_TRIPS)?; // the first one warms up
    for _ in 0..TURNS {
        bare.push(round_trip(cpu, ROUND_TRIPS)?);
        let running = (Recorder::start(&options)?, potential()?);
        recorded.push(round_trip(cpu, ROUND_TRIPS)?);
        drop(running);
    }
    let mut ratios: Vec<f64> =
        bare.iter().zip(&recorded).map(|(bare, recorded)| recorded.0 as f64 / bare.0.max(1) as f64).collect();
    ratios.sort_by(f64::total_cmp);
    Ok(AssumedPenalty {
        cpu,
        bare_ns: median(bare),
        recorded_ns: median(recorded),
        ratio: ratios[ratios.len() / 2],
        turns: TURNS as u32,
        round_trips: ROUND_TRIPS,
    })
}

fn median(mut values: Vec<Ns>) -> Ns {
    values.sort_unstable();
    values[values.len() / 2]
}
