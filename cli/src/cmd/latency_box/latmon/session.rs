//! One measurement of a latmon, as latmus: request, records, stop, histogram. It ends, whatever the box does.

use std::time::{Duration, Instant};

use lathunt_core::latency_box::latmon::listener::{Listener, Received};
use lathunt_core::latency_box::latmon::totals::Totals;
use lathunt_core::latency_box::latmon::wire::{Record, Request};
use lathunt_host::latency_box::latmon::Peer;

/// Zephyr's latmon stops permanently after one late reply, without a message: no pulse and no record for this
/// long.
const SILENCE: Duration = Duration::from_secs(2);
/// How long to wait for the answer to a stop, as latmus does.
const PATIENCE: Duration = Duration::from_secs(5);

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// On our request, with all results.
    Asked,
    /// The box had stopped measuring; all results came on request.
    Stalled,
    /// The box ended it.
    Box,
    /// The box closed the connection, or it broke.
    Closed(String),
    /// No more data.
    Unresponsive,
}

/// Its results.
pub(super) struct Measured {
    pub(super) totals: Totals,
    pub(super) cells: Option<Vec<u32>>,
    pub(super) end: End,
    pub(super) damaged_bytes: u64,
    pub(super) elapsed: Duration,
}

/// Callbacks.
pub(super) struct Around<'a> {
    /// Whether to stop.
    pub(super) is_over: &'a dyn Fn(Duration) -> bool,
    /// Pulses so far.
    pub(super) pulses: &'a dyn Fn() -> u64,
    /// A record arrived.
    pub(super) on_record: &'a mut dyn FnMut(&Record, &Totals, Duration),
}

/// Measures.
pub(super) fn measure(peer: &mut Peer, request: Request, around: &mut Around) -> Measured {
    let begun = Instant::now();
    let (mut listener, mut totals, mut cells) = (Listener::new(request), Totals::new(request), None);
    let (mut pulses, mut last) = ((around.pulses)(), begun);
    let (mut stopped, mut stalled): (Option<Instant>, bool) = (None, false);
    let mut buffer = [0; 4_096];
    let silence = SILENCE + 2 * Duration::from_micros(u64::from(request.period_us));
    let mut end = peer.send(&request.encode()).err().map(|error| End::Closed(error.to_string()));
    while end.is_none() {
        match peer.receive(&mut buffer, 20) {
            Ok(None) => {}
            Ok(Some(0)) => end = Some(End::Closed("it closed the connection".to_owned())),
            Err(error) => end = Some(End::Closed(error.to_string())),
            Ok(Some(n)) => {
                last = Instant::now();
                listener.feed(&buffer[..n]);
                while let Some(heard) = listener.next() {
                    match heard {
                        Received::Record(record) => {
                            totals.add(&record, u32::try_from(begun.elapsed().as_secs()).unwrap_or(u32::MAX));
                            if stopped.is_none() {
                                totals.check_bulk(&record);
                            }
                            (around.on_record)(&record, &totals, begun.elapsed());
                        }
                        Received::End(record) => totals.add(&record, 0),
                        Received::Cells(found) => cells = Some(found),
                    }
                }
                if listener.is_over() {
                    end = Some(match (stalled, stopped) {
                        (true, _) => End::Stalled,
                        (false, Some(_)) => End::Asked,
                        (false, None) => End::Box,
                    });
                }
            }
        }
        let now = (around.pulses)();
        if now != pulses && stopped.is_none() {
            (pulses, last) = (now, Instant::now());
        }
        let is_silent = last.elapsed() > silence;
        match stopped {
            None if end.is_none() && (is_silent || (around.is_over)(begun.elapsed())) => {
                stalled = is_silent;
                stopped = Some(Instant::now());
                listener.stop();
                end = peer.send(&Request::STOP.encode()).err().map(|error| End::Closed(error.to_string()));
            }
            // Also if it floods us with anything but an end.
            Some(at) if at.elapsed() > PATIENCE && end.is_none() => end = Some(End::Unresponsive),
            _ => {}
        }
    }
    let end = end.unwrap_or(End::Unresponsive);
    Measured { totals, cells, end, damaged_bytes: listener.damaged_bytes(), elapsed: begun.elapsed() }
}
