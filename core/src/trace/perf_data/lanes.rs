//! Records in time order without sorting: ascending runs of the file, chained into lanes.

use std::collections::{HashMap, HashSet};

use super::super::bytes::Order;
use super::super::item::{Damage, Item, Loss, Record, Span};
use super::super::merge;
use super::sample::{kind, PerfRecord, Samples};
use super::PerfData;
use crate::numbers::counted;
use crate::printable;
use crate::time::{Cpu, Mono, Tid};

/// Maximum number of lanes; more than the CPUs of any machine. Beyond it, disorder is reported.
const MOST_LANES: usize = 4096;

/// Records `begin..end` of the data, ascending in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    begin: usize,
    end: usize,
    first: u64,
    last: u64,
}

/// Result of the first pass.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    pub lanes: Vec<Vec<Run>>,
    pub comms: HashMap<Tid, String>,
    pub damage: Vec<Damage>,
    pub cpus: Option<u32>,
    timed_losses: u64,
    untimed_losses: u64,
    /// Samples with impossible times.
    impossible: u64,
    /// Compressed records among others.
    compressed: u64,
    is_disordered: bool,
    /// Lanes by the time of their last record.
    ends: std::collections::BTreeMap<(u64, usize), ()>,
}

impl Lanes {
    pub fn find(samples: &Samples<'_>) -> Lanes {
        let mut lanes = Lanes::default();
        let mut run: Option<Run> = None;
        let mut at = 0;
        while let Some(record) = samples.record(at) {
            let Some(record) = record else {
                let what = "a record that cannot be; the rest of the file is not read";
                lanes.damage.push(Damage::new(samples.offset + at as u64, what));
                break;
            };
            lanes.note(&record, samples.order);
            if let (Some(time), true) = (record.time, is_shown(&record)) {
                match &mut run {
                    Some(run) if time >= run.last => (run.last, run.end) = (time, record.next),
                    _ => {
                        lanes.place(run.take());
                        run = Some(Run { begin: at, end: record.next, first: time, last: time });
                    }
                }
            }
            at = record.next;
        }
        lanes.place(run);
        lanes.tell_untimed();
        lanes
    }

    /// Reports the sums that perf appends at the end, minus the losses already counted by records with a time.
    fn tell_untimed(&mut self) {
        let more = self.untimed_losses.saturating_sub(self.timed_losses);
        if more > 0 {
            let what = format!("lost: {}; perf does not say when and where", counted(more, "event"));
            self.damage.push(Damage::general(0, what));
        }
        if self.compressed > 0 {
            let what = format!("{} compressed records among uncompressed ones are not read", self.compressed);
            self.damage.push(Damage::new(0, what));
        }
        if self.impossible > 0 {
            let what =
                format!("skipped, at times that no clock shows: {}", counted(self.impossible, "event"));
            self.damage.push(Damage::new(0, what));
        }
    }

    fn note(&mut self, record: &PerfRecord<'_>, order: Order) {
        if let Some(count) = lost(record, order) {
            let sum = if is_shown(record) { &mut self.timed_losses } else { &mut self.untimed_losses };
            *sum = sum.saturating_add(count);
        }
        if record.raw.is_some() && record.time.is_some_and(|time| time > Mono::LATEST.0) {
            self.impossible += 1;
        }
        self.compressed += u64::from(matches!(record.kind, kind::COMPRESSED | kind::COMPRESSED2));
        if record.kind == kind::COMM {
            let tid = order.u32_at(record.body, 4).map(|tid| tid as i32);
            let comm = record.body.get(8..).map(super::super::value::up_to_nul);
            if let (Some(tid), Some(comm)) = (tid, comm) {
                let comm = printable::line(&String::from_utf8_lossy(comm)).into_owned();
                self.comms.insert(Tid(tid), comm);
            }
        }
        let known = self.cpus.unwrap_or(0);
        self.cpus = record.cpu.and_then(|cpu| cpu.checked_add(1)).map(|cpus| cpus.max(known)).or(self.cpus);
    }

    /// Appends to the lane whose end is closest before the start of the run, so that there are few lanes.
    fn place(&mut self, run: Option<Run>) {
        let Some(run) = run else { return };
        let fits = self.ends.range(..=(run.first, usize::MAX)).next_back().map(|(&key, ())| key);
        let lane = match fits {
            Some(key) => {
                self.ends.remove(&key);
                key.1
            }
            None if self.lanes.len() < MOST_LANES => {
                self.lanes.push(Vec::new());
                self.lanes.len() - 1
            }
            None => {
                if !self.is_disordered {
                    self.is_disordered = true;
                    self.damage
                        .push(Damage::general(run.begin as u64, "records too disordered to be sorted"));
                }
                MOST_LANES - 1
            }
        };
        self.lanes[lane].push(run);
        self.ends.insert((run.last, lane), ());
    }
}

/// Whether a record has a place in time. A sum over the whole recording (perf 6.1) is a LOST_SAMPLES with time 0.
fn is_shown(record: &PerfRecord<'_>) -> bool {
    let is_loss = matches!(record.kind, kind::LOST | kind::LOST_SAMPLES);
    let is_possible = record.time.is_none_or(|time| time <= Mono::LATEST.0);
    is_possible && (record.raw.is_some() || (is_loss && record.time.is_some_and(|time| time != 0)))
}

/// Number of lost events in a record.
fn lost(record: &PerfRecord<'_>, order: Order) -> Option<u64> {
    match record.kind {
        kind::LOST => order.u64_at(record.body, 8),
        kind::LOST_SAMPLES => order.u64_at(record.body, 0),
        _ => None,
    }
}

/// A walk over one lane.
#[derive(Debug)]
pub(super) struct Lane<'t> {
    perf: &'t PerfData<'t>,
    runs: &'t [Run],
    run: usize,
    next: usize,
    head: Option<Head<'t>>,
    at: u64,
    /// Ids without a format, each reported once.
    unknown: HashSet<u16>,
}

#[derive(Debug)]
enum Head<'t> {
    Event { class: u32, cpu: Cpu, data: &'t [u8] },
    Lost { cpu: Cpu, count: u64 },
    Damage(Damage),
}

impl<'t> Lane<'t> {
    pub fn begin(perf: &'t PerfData<'t>, runs: &'t [Run], span: Span) -> Self {
        let run = runs.partition_point(|run| run.last < span.from.0);
        let next = runs.get(run).map_or(0, |run| run.begin);
        let mut lane = Lane { perf, runs, run, next, head: None, at: 0, unknown: HashSet::new() };
        merge::Stream::advance(&mut lane);
        while lane.head.is_some() && lane.at < span.from.0 {
            merge::Stream::advance(&mut lane);
        }
        lane
    }

    fn find(&mut self) -> Option<Head<'t>> {
        loop {
            let run = self.runs.get(self.run)?;
            if self.next >= run.end {
                self.run += 1;
                self.next = self.runs.get(self.run)?.begin;
                continue;
            }
            let begin = self.next;
            let record = self.perf.samples.record(begin)??;
            self.next = record.next;
            let Some(time) = record.time else { continue };
            if !is_shown(&record) {
                continue;
            }
            self.at = time;
            if let Some(head) = self.head_of(&record, begin) {
                return Some(head);
            }
        }
    }

    fn head_of(&mut self, record: &PerfRecord<'t>, begin: usize) -> Option<Head<'t>> {
        let cpu = Cpu(record.cpu.unwrap_or(0));
        let order = self.perf.samples.order;
        match record.kind {
            kind::LOST | kind::LOST_SAMPLES => Some(Head::Lost { cpu, count: lost(record, order)? }),
            _ => {
                let data = record.raw?;
                let id = order.unsigned(data.get(..2)?) as u16;
                let class = self.perf.class_of_id[usize::from(id)];
                if class != u32::MAX {
                    return Some(Head::Event { class, cpu, data });
                }
                if self.unknown.contains(&id) {
                    return None;
                }
                self.unknown.insert(id);
                let offset = self.perf.samples.offset + begin as u64;
                Some(Head::Damage(Damage::new(offset, format!("events of unknown id {id} are skipped"))))
            }
        }
    }
}

impl merge::Stream for Lane<'_> {
    #[inline]
    fn time(&self) -> Option<u64> {
        self.head.as_ref().map(|_| self.at)
    }

    #[inline]
    fn item(&self) -> Item<'_> {
        let at = Mono(self.at);
        match &self.head {
            Some(Head::Event { class, cpu, data }) => {
                Item::Event(Record { at, cpu: *cpu, class: *class, origin: 0, data, first_bit: 0 })
            }
            Some(Head::Lost { cpu, count }) => Item::Lost(Loss {
                cpu: *cpu,
                after: None,
                before: at,
                count: Some(*count),
                origin: 0,
                inferred_within: None,
            }),
            Some(Head::Damage(damage)) => Item::Damage(damage.clone()),
            None => Item::Damage(Damage::new(0, "the walk is over")),
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.head = self.find();
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{Layouts, SampleLayout};
    use super::*;

    /// A record that ends with thread, time and CPU, of a big-endian machine.
    fn record(kind: u32, body: &[u8], time: u64) -> Vec<u8> {
        let trailer = [&[0; 8][..], &time.to_be_bytes(), &[0; 8]].concat();
        let size = (8 + body.len() + trailer.len()) as u16;
        [&kind.to_be_bytes()[..], &[0, 0], &size.to_be_bytes(), body, &trailer].concat()
    }

    fn found(records: &[Vec<u8>]) -> Lanes {
        let data = records.concat();
        let layouts = Layouts::new(&[(Vec::new(), SampleLayout::new(0x86, 0, true))]);
        Lanes::find(&Samples { data: &data, offset: 0, order: Order::Big, layouts })
    }

    #[test]
    fn names_and_losses_of_big_endian_machines_are_read() {
        let comm = [&77u32.to_be_bytes()[..], &77u32.to_be_bytes(), b"axis\0\0\0\0"].concat();
        let lost = [0u64.to_be_bytes(), 12u64.to_be_bytes()].concat();
        let lanes = found(&[record(kind::COMM, &comm, 4), record(kind::LOST, &lost, 5)]);
        assert_eq!(lanes.comms.get(&Tid(77)).map(String::as_str), Some("axis"));
        assert_eq!((lanes.lanes[0][0].first, lanes.timed_losses), (5, 12));
    }

    #[test]
    fn compressed_records_among_others_are_told() {
        let lanes = found(&[record(kind::LOST, &[0; 16], 5), record(kind::COMPRESSED, &[0; 8], 0)]);
        assert!(lanes.damage[0].what.starts_with("1 compressed records"), "{:?}", lanes.damage);
    }

    #[test]
    fn a_sum_of_losses_without_a_time_is_at_no_time_and_counts_once() {
        let lost = [0u64.to_be_bytes(), 12u64.to_be_bytes()].concat();
        let sum = record(kind::LOST_SAMPLES, &15u64.to_be_bytes(), 0);
        let alone = found(std::slice::from_ref(&sum));
        assert!(alone.lanes.is_empty());
        assert!(alone.damage[0].what.starts_with("lost: 15 events; perf does not say"), "{:?}", alone.damage);
        let both = found(&[record(kind::LOST, &lost, 5), sum.clone()]);
        assert_eq!((both.lanes.len(), both.lanes[0].len()), (1, 1));
        assert!(both.damage[0].what.starts_with("lost: 3 events; perf does not say"), "{:?}", both.damage);
        let same = found(&[record(kind::LOST, &lost, 5), record(kind::LOST, &lost, 6), sum]);
        assert_eq!(same.damage, vec![]);
    }
}
