//! A request to a stacked device, such as a loop device: a worker serves it, by a request to the device below or from the cache
//! of a file.

use super::clauses::{Weight, AMOUNT};
use super::Walk;
use crate::explain::record::describe::device;
use crate::explain::segment::{Kind, Segment};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What};

/// Whether a device passes its requests on to others, by its major number (Documentation/admin-guide/devices.txt): loop,
/// md, device-mapper and network block devices.
pub(super) fn is_stacked(dev: u32) -> bool {
    [7, 9, 43, 252, 253].contains(&(dev >> 20))
}

/// The request to the device below.
pub(super) struct Below {
    /// The thread that issued it, in a work item queued by the issuer of the upper request.
    worker: Thread,
    function: String,
    issued: u32,
    dev: u32,
    sectors: u32,
    done: (u32, Mono),
}

/// A worker that serves a request by itself.
pub(super) struct Server {
    worker: Thread,
    function: String,
    start: u32,
}

/// Maximum time that a work item served other requests before this one.
const SERVING: Ns = Ns::from_ms(20);

impl Walk<'_, '_> {
    /// The last completed request below the one `issued` and in flight until `b`. `None`: no such request is recorded.
    pub(super) fn below(&self, issued: u32, b: Mono) -> Option<Below> {
        let What::BlockIssue { dev: upper, .. } = self.record.event(issued).kind else { return None };
        let a = self.record.event(issued).at;
        let issuer = self.linked.actor(issued)?;
        let mut last: Option<Below> = None;
        for cpu in self.record.cpus() {
            for (index, event) in self.record.events_on(cpu, a, b) {
                let What::BlockIssue { dev, sector, nr_sector, .. } = event.kind else { continue };
                let worker = self.linked.actor(index).filter(|who| dev != upper && who.tid != issuer.tid);
                let Some(worker) = worker else { continue };
                let Some((start, work, function)) = self.linked.executing(worker.tid, event.at) else {
                    continue;
                };
                let queued = self.linked.queued(work, self.record.event(start).at);
                let queued = queued.filter(|&index| self.record.event(index).at >= a);
                if queued.and_then(|index| self.linked.actor(index)).is_none_or(|by| by.tid != issuer.tid) {
                    continue;
                }
                let Some(done) = self.completed_on(dev, sector, event.at, b) else { continue };
                if last.as_ref().is_none_or(|last| last.done.1 < done.1) {
                    let function = function.map_or("?", |sym| self.record.text(sym)).to_owned();
                    last = Some(Below { worker, function, issued: index, dev, sectors: nr_sector, done });
                }
            }
        }
        last
    }

    /// The worker that served the request `issued`, in flight until `b`, without a request below: it writes to or reads from
    /// the cache of the file. Its work item was queued by the issuer, or still had to serve an earlier request.
    pub(super) fn server(&self, issued: u32, b: Mono) -> Option<Server> {
        let at = self.record.event(issued).at;
        let issuer = self.linked.actor(issued)?;
        let mut last: Option<(Mono, Server)> = None;
        for cpu in self.record.cpus() {
            for (index, event) in self.record.events_on(cpu, Mono(at.0.saturating_sub(SERVING.0)), b) {
                let What::WorkStart { work, function: Some(function) } = event.kind else { continue };
                let others = |tid: &Tid| *tid != issuer.tid && !self.path.contains(tid);
                let Some(worker) = event.current.filter(others) else { continue };
                let queued = self.linked.queued(work, event.at).filter(|&queued| {
                    self.record.event(queued).at >= at
                        && self.linked.actor(queued).is_some_and(|by| by.tid == issuer.tid)
                });
                let function = self.record.text(function);
                let goes_on = || self.linked.executing(worker, at).is_some_and(|(start, ..)| start == index);
                let serves =
                    queued.is_some() || function.starts_with("loop_") && (event.at >= at || goes_on());
                if serves && last.as_ref().is_none_or(|(known, _)| *known <= event.at) {
                    let worker = self.record.thread_by_id(worker, event.at);
                    last = Some((event.at, Server { worker, function: function.to_owned(), start: index }));
                }
            }
        }
        last.map(|(_, server)| server)
    }

    /// `what` was in flight in `[a, b)`: the time of the worker that served it.
    pub(super) fn served(
        &mut self,
        what: &str,
        server: &Server,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Segment {
        let Server { worker, function, start } = server;
        let text = format!("the {what} took {AMOUNT}: work item {function} in worker {worker} served it");
        self.say(Weight::Frame, b.since(a), text, String::new(), "");
        let inside = self.life(worker, a, b, depth + 1);
        let label = format!("{what} is served by work item {function} in worker {worker} (stacked device)");
        let mut group = Segment::group(Kind::Blocked, label, a, b.since(a), inside);
        group.evidence.push(self.record.evidence(*start));
        group
    }

    /// Event and time of the completion of a request in `[a, b]`.
    fn completed_on(&self, dev: u32, sector: u64, a: Mono, b: Mono) -> Option<(u32, Mono)> {
        let is_it = |event: &Event| matches!(event.kind, What::BlockComplete { dev: of, sector: at, .. } if (of, at) == (dev, sector));
        self.record.cpus().find_map(|cpu| {
            let mut events = self.record.events_on(cpu, a, b);
            events.find(|(_, event)| is_it(event)).map(|(index, event)| (index, event.at))
        })
    }

    /// `what` was in flight in `[a, b)`: the time of the worker, and the request below.
    pub(super) fn stacked(
        &mut self,
        what: &str,
        below: &Below,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Segment {
        let Below { worker, function, issued, dev, sectors, done } = below;
        let (issued_at, done_at) = (self.record.event(*issued).at.clamp(a, b), done.1.clamp(a, b));
        let on = device(*dev);
        let text = format!(
            "the {what} took {AMOUNT}: work item {function} in worker {worker} served it by a request to device {on}"
        );
        self.say(Weight::Frame, b.since(a), text, String::new(), "");
        let mut inside =
            vec![self.until(worker, &format!("issues the request to device {on}"), (a, issued_at), depth)];
        let request = format!("disk request of {sectors} sectors of device {on}");
        let text = format!("the {request} took {AMOUNT} (block I/O)");
        self.say(Weight::Blame, done_at.since(issued_at), text, format!("block I/O: device {on}"),
            "the device took this long: keep disk I/O out of the interval, or use a faster device or an I/O scheduler for it");
        let proofs = [Some(*issued), Some(done.0)];
        let label = format!("{request} is in flight (block I/O)");
        inside.push(self.awaited(&request, label, issued_at, done_at, &proofs));
        inside.push(self.until(worker, "completes the upper request", (done_at, b), depth));
        inside.retain(|part| part.duration_ns.0 > 0);
        let label = format!("{what} is served by work item {function} in worker {worker} (stacked device)");
        let mut group = Segment::group(Kind::Blocked, label, a, b.since(a), inside);
        group.evidence.push(self.record.evidence(*issued));
        group
    }
}
