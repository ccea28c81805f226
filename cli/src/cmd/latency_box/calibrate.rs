//! Before a measurement: the responder delays its answers by a known time, and the median must move by exactly that.

use std::time::Duration;

use anyhow::{bail, Result};
use lathunt_core::latency_box::channel::Channel;
use lathunt_core::latency_box::message::SIZE;
use lathunt_core::run::Calibration;
use lathunt_core::time::Ns;
use lathunt_host::latency_box::{Finished, Options, Session};
use lathunt_host::signals;

use super::open;
use super::session::Prepared;
use crate::cmd::latency_box::BoxArgs;

/// Requested delays.
const DELAYS: [Ns; 3] = [Ns::from_us(50), Ns::from_us(200), Ns::from_us(900)];
/// Round trips per delay.
const ROUND_TRIPS: u64 = 200;
const INTERVAL: Ns = Ns::from_ms(3);
/// Round trips of the length of a class above 1 µs would hide the delays.
const LONGEST_ROUND_TRIP: Ns = Ns::from_ms(9);

/// Calibrates each channel, or pair, in turn.
///
/// # Errors
/// If a responder is absent.
pub fn all(args: &BoxArgs, prepared: &Prepared) -> Result<Vec<Calibration>> {
    let mut calibrations = Vec::new();
    let (cpu, priority) = (prepared.place.cpus[0], prepared.place.priority);
    if let Some(gpio) = args.channels.iter().find(|channel| matches!(channel, Channel::Gpio(..))) {
        bail!("{gpio} carries only edges, so --calibrate cannot request delays; start the responder with --delay instead");
    }
    let intervals = args.channels.iter().map(interval).collect::<Result<Vec<_>>>()?;
    for (channel, interval) in args.channels.iter().zip(intervals) {
        let mut median = |ask: Ns| -> Result<Option<Ns>> {
            let link = open::connect(channel, args.wait)?;
            let options = options(args, ask, cpu, priority, channel.to_string());
            let session = Session::start(link, Options { interval, ..options })?;
            Ok(measure(session))
        };
        calibrations.extend(judge(&channel.to_string(), cpu, &mut median)?);
    }
    for local in args.locals() {
        let mut median = |ask: Ns| -> Result<Option<Ns>> {
            let end = open::pair(
                local,
                open::other(cpu),
                options(args, ask, cpu, priority, local.to_string()),
                None,
            )?;
            let found = measure(end.session);
            drop(end.serving.map(lathunt_host::latency_box::responder::Serving::end));
            Ok(found)
        };
        calibrations.extend(judge(local.name(), cpu, &mut median)?);
    }
    Ok(calibrations)
}

/// Interval of the stimuli. On a serial line, a round trip must be over before the next one: else each would wait for all
/// before it.
///
/// # Errors
/// The line is too slow.
fn interval(channel: &Channel) -> Result<Ns> {
    let Channel::Tty(_, rate) = channel else { return Ok(INTERVAL) };
    let message = Ns(SIZE as u64 * 10 * 1_000_000_000 / u64::from(*rate));
    if message + message > LONGEST_ROUND_TRIP {
        bail!(
            "{channel}: a message takes {message} at this rate, too long to see delays of 50 µs in it: calibrate at 115200 baud or \
             more, or start the responder with --delay 50ms and check the median instead of --calibrate"
        );
    }
    Ok(INTERVAL.max(message + message + message + message))
}

fn options(args: &BoxArgs, ask: Ns, cpu: lathunt_core::time::Cpu, priority: i32, name: String) -> Options {
    let stimuli = Some(ROUND_TRIPS);
    let base = open::options(args, name, cpu, priority);
    Options { interval: INTERVAL, stimuli, duration: None, break_at: None, ask, worst: 0, ..base }
}

fn measure(session: Session) -> Option<Ns> {
    while session.is_running() && signals::stop_requested().is_none() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let Finished { series, counts, .. } = session.finish();
    // A median of a few would prove nothing.
    (counts.answered >= ROUND_TRIPS / 2).then(|| series.first()?.histogram.quantile(0.5)).flatten()
}

/// A shift is accepted within 5 %, or within 10 µs if that is more: half of it is the class width of the histogram and the
/// scatter of the median.
fn judge(
    name: &str,
    cpu: lathunt_core::time::Cpu,
    median: &mut dyn FnMut(Ns) -> Result<Option<Ns>>,
) -> Result<Vec<Calibration>> {
    let undisturbed = median(Ns::ZERO)?;
    let mut found = Vec::new();
    for delay in DELAYS {
        let shifted = median(delay)?;
        let seen = shifted.zip(undisturbed).map(|(with, without)| with.saturating_sub(without));
        let tolerance = (delay.0 / 20).max(10_000);
        let passed = seen.is_some_and(|seen| seen.0.abs_diff(delay.0) <= tolerance);
        let note = match seen {
            _ if passed => String::new(),
            None => format!("{name}: too few answers"),
            Some(seen) => format!(
                "{name}: a delay of {delay} was measured as {seen}; is the responder older, or the machine busy?"
            ),
        };
        found.push(Calibration {
            cpu,
            kind: "delay".to_owned(),
            injected_ns: Some(delay),
            instrument_ns: seen,
            recorder_ns: None,
            undisturbed_ns: undisturbed,
            passed,
            note,
        });
    }
    Ok(found)
}
