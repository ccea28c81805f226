//! latmon's side: handles requests, collects latencies into records, answers a stop with the rest.
//!
//! As EVL's latmon: a latency above the period is counted with its value in the histogram, a pulse without an answer is
//! an overrun without a sample. An invalid request is treated as a stop.

use super::wire::{Record, Request, RECORD, REQUEST};
use crate::time::Ns;

/// A request from latmus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start a measurement; a running one is dropped.
    Start(Request),
    /// Stop it.
    Stop,
    /// Invalid; treated as a stop.
    Refused(Request),
}

/// One client of latmon.
#[derive(Debug, Default)]
pub struct Monitor {
    bytes: Vec<u8>,
    request: Option<Request>,
    record: Option<Record>,
    cells: Vec<u32>,
}

impl Monitor {
    /// Adds bytes from the client, in pieces of any size.
    pub fn hear(&mut self, mut bytes: &[u8]) -> Vec<Order> {
        let mut orders = Vec::new();
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(REQUEST - self.bytes.len()));
            self.bytes.extend_from_slice(now);
            bytes = later;
            if let Ok(whole) = <&[u8; REQUEST]>::try_from(self.bytes.as_slice()) {
                let request = Request::decode(whole);
                self.bytes.clear();
                orders.push(match request {
                    Request { period_us: 0, .. } => Order::Stop,
                    _ if request.is_start() => Order::Start(request),
                    _ => Order::Refused(request),
                });
            }
        }
        orders
    }

    /// Bytes of an incomplete request.
    #[must_use]
    pub fn rest(&self) -> usize {
        self.bytes.len()
    }

    /// Starts a measurement with empty counts.
    pub fn start(&mut self, request: Request) {
        (self.request, self.record) = (Some(request), None);
        self.cells = vec![0; request.cells as usize];
    }

    /// The running measurement.
    #[must_use]
    pub fn running(&self) -> Option<Request> {
        self.request
    }

    /// Adds a latency. Returns a record to send after the last one of a bulk. Latencies above 2.1 s do not fit into the
    /// protocol and are overruns.
    pub fn sample(&mut self, latency: Ns) -> Option<[u8; RECORD]> {
        let request = self.request?;
        let Ok(ns) = i32::try_from(latency.0) else {
            self.overruns(1);
            return None;
        };
        if let Some(last) = self.cells.len().checked_sub(1) {
            let cell = usize::try_from(ns / 1_000).unwrap_or(last).min(last);
            self.cells[cell] = self.cells[cell].saturating_add(1);
        }
        let record = self.record.get_or_insert(Record::EMPTY);
        record.min_ns = if record.samples == 0 { ns } else { record.min_ns.min(ns) };
        record.max_ns = record.max_ns.max(ns);
        record.sum_ns += i64::from(ns);
        record.samples += 1;
        (record.samples >= request.bulk()).then(|| self.take().encode())
    }

    /// Adds pulses without an answer in time.
    pub fn overruns(&mut self, count: u64) {
        let record = self.record.get_or_insert(Record::EMPTY);
        record.overruns = record.overruns.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    fn take(&mut self) -> Record {
        self.record.take().unwrap_or(Record::EMPTY)
    }

    /// Ends the measurement: the unfinished bulk if it has samples, a record without samples, the requested cells.
    pub fn stop(&mut self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * RECORD + 4 * self.cells.len());
        let last = self.take();
        if last.samples > 0 {
            bytes.extend(last.encode());
            bytes.extend(Record::EMPTY.encode());
        } else {
            bytes.extend(last.encode());
        }
        bytes.extend(std::mem::take(&mut self.cells).iter().flat_map(|count| count.to_be_bytes()));
        self.request = None;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_measurement_is_the_transcript_of_latmon() {
        let mut monitor = Monitor::default();
        let request = Request { period_us: 500_000, cells: 3 };
        assert_eq!(monitor.hear(&request.encode()), [Order::Start(request)]);
        monitor.start(request);
        assert_eq!(monitor.sample(Ns(1_500)), None);
        let record = monitor.sample(Ns(9_000)).unwrap(); // two samples a second
        assert_eq!(
            record,
            [0, 0, 0, 0, 0, 0, 0x29, 0x04, 0, 0, 0x05, 0xdc, 0, 0, 0x23, 0x28, 0, 0, 0, 0, 0, 0, 0, 2]
        );
        assert_eq!(monitor.sample(Ns(700)), None);
        monitor.overruns(1);
        let expected = [
            [0, 0, 0, 0, 0, 0, 0x02, 0xbc, 0, 0, 0x02, 0xbc, 0, 0, 0x02, 0xbc, 0, 0, 0, 1, 0, 0, 0, 1], // the unfinished bulk
            [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        let cells = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]; // 9 µs is above the last cell
        assert_eq!(monitor.stop(), [&expected[..], &cells].concat());
        // A second stop has nothing to add, and no cells.
        assert_eq!(monitor.stop(), Record::EMPTY.encode());
    }

    #[test]
    fn overruns_without_a_sample_are_in_the_last_record() {
        let mut monitor = Monitor::default();
        monitor.start(Request { period_us: 1_000, cells: 0 });
        monitor.overruns(3);
        assert_eq!(monitor.sample(Ns(3_000_000_000)), None);
        assert_eq!(monitor.stop(), Record { overruns: 4, ..Record::EMPTY }.encode());
        assert_eq!(monitor.sample(Ns(1)), None, "nothing runs");
    }

    proptest! {
        #[test]
        fn requests_come_in_any_pieces(
            requests in proptest::collection::vec((any::<u32>(), any::<u32>()), 0..8), chunk in 1usize..20, rest in 0usize..8
        ) {
            let mut bytes: Vec<u8> =
                requests.iter().flat_map(|&(period_us, cells)| Request { period_us, cells }.encode()).collect();
            bytes.extend(vec![7; rest]);
            let mut monitor = Monitor::default();
            let orders: Vec<Order> = bytes.chunks(chunk).flat_map(|piece| monitor.hear(piece)).collect();
            prop_assert_eq!(orders.len(), requests.len());
            prop_assert_eq!(monitor.rest(), rest);
            for (order, (period_us, cells)) in orders.into_iter().zip(requests) {
                let request = Request { period_us, cells };
                prop_assert_eq!(order == Order::Stop, period_us == 0);
                prop_assert_eq!(matches!(order, Order::Start(_)), request.is_start());
            }
        }
    }
}
