//! Events that release a blocked thread, from their origin: a work item, a request, a packet, a call.

use std::collections::BTreeMap;

use super::clauses::{Weight, AMOUNT};
use super::queued::Own;
use super::rest::Rest;
use super::stacked::is_stacked;
use super::wakers::Request;
use super::Walk;
use crate::explain::record::describe::device;
use crate::explain::segment::{Kind, Segment};
use crate::series::Thread;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::Kind as What;

/// Requests of other threads count from this time before ours: a device answers within some ms.
const BUSY: Ns = Ns::from_ms(10);

impl Walk<'_, '_> {
    /// A work item that `thread` waits for, its start and queuing: the thread that queued it until then; after that its worker.
    pub(super) fn work(
        &mut self,
        thread: &Thread,
        worker: &Thread,
        function: &str,
        (start, queued): (u32, Option<u32>),
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let mut parts = Vec::new();
        let mut rest = Rest::of((a, b));
        let mut by = String::new();
        if let Some(index) = queued {
            let (a, at) = rest.until(self.record.event(index).at);
            let queuer = self.linked.actor(index);
            by = queuer
                .as_ref()
                .map_or(" queued in an interrupt".to_owned(), |queuer| format!(" queued by {queuer}"));
            if at > a {
                let before = match queuer {
                    Some(queuer) => self.life(&queuer, a, at, depth + 1),
                    None => {
                        let cause = self.behind(worker, index);
                        self.given_by(cause, Some(index), thread, (a, at), "", depth + 1)
                    }
                };
                let label = format!("until work item {function} is{by}");
                let mut group = Segment::group(Kind::Blocked, label, a, at.since(a), before);
                group.evidence.push(self.record.evidence(index));
                parts.push(group);
            }
        }
        let (from, b) = rest.last();
        if from < b {
            let label = format!("work item {function} (workqueue){by}, executed by worker {worker}");
            let text =
                format!("work item {function}{by} took {AMOUNT} from queue to hand-over in worker {worker}");
            self.say(Weight::Frame, b.since(from), text, String::new(), "");
            let inside = self.life(worker, from, b, depth + 1);
            let mut group = Segment::group(Kind::Blocked, label, from, b.since(from), inside);
            group.evidence.push(self.record.evidence(start));
            parts.push(group);
        }
        parts
    }

    /// A request to a device.
    pub(super) fn request(
        &mut self,
        thread: &Thread,
        request: Request,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let Request { issued, complete, irq, entry, by } = request;
        let What::BlockComplete { dev, sector, mut nr_sector, .. } = self.record.event(complete).kind else {
            return Vec::new();
        };
        let mut parts = Vec::new();
        let mut rest = Rest::of((a, b));
        let mut kind = if sector == u64::MAX { "flush" } else { "request" };
        let (mut owner, mut own) = (None, None);
        if let Some(index) = issued {
            let event = self.record.event(index);
            if let What::BlockIssue { rwbs: Some(rwbs), nr_sector: issued, .. } = event.kind {
                let rwbs = self.record.text(rwbs);
                // After a flush, the last completion of a write has no sectors.
                nr_sector = nr_sector.max(issued);
                kind = match rwbs {
                    _ if nr_sector == 0 && rwbs.starts_with('F') => "flush",
                    _ if rwbs.starts_with('D') => "discard",
                    _ if rwbs.contains('R') => "read",
                    _ => "write",
                };
            }
            let submitted = self.linked.submitted(index);
            owner = self.linked.owner(index);
            let others = |by: &Thread| by.tid != thread.tid && !self.path.contains(&by.tid);
            if let Some((at, by)) = submitted.filter(|(at, by)| *at > a && others(by)) {
                let span = rest.until(at);
                parts.push(self.until(&by, "submits the request", span, depth));
            }
            own = owner.clone().and_then(|owner| {
                self.own_requests(owner, (dev, sector), index, (rest.from(), entry.clamp(rest.from(), b)))
            });
            if !own.as_ref().is_some_and(|own| own.waited) || self.lossy {
                parts.extend(self.until_issued(thread, index, &mut rest, depth));
            }
        } else {
            self.ask("block_rq_issue");
        }
        let (from, done) = rest.until(entry);
        let irq = &self.disk_interrupt(complete, from, &irq);
        let is = if own.as_ref().is_some_and(|own| own.count > 1) { "are" } else { "is" };
        let what = match (kind, own) {
            ("flush", _) => format!("flush of the write cache of device {}", device(dev)),
            (_, Some(Own { by, count: count @ 2.., sectors, .. })) => format!(
                "{count} disk {kind}s of {by} ({sectors} sectors together, the last at sector {sector}) of device {}",
                device(dev)
            ),
            _ => {
                let others = |by: &&Thread| by.tid != thread.tid && !self.path.contains(&by.tid);
                let by = owner.as_ref().filter(others);
                let by = by.map_or(String::new(), |by| format!(", submitted by {by},"));
                format!("disk {kind} of {nr_sector} sectors at sector {sector} of device {}{by}", device(dev))
            }
        };
        let server =
            || issued.filter(|_| is_stacked(dev) && !self.lossy).and_then(|index| self.server(index, done));
        if let Some(below) = issued.and_then(|index| self.below(index, done)) {
            parts.push(self.stacked(&what, &below, (from, done), depth));
        } else if let Some(server) = server() {
            parts.push(self.served(&what, &server, (from, done), depth));
        } else if self.lossy && (issued.is_none() || is_stacked(dev)) {
            parts.push(self.unsure(&format!("the {what} is not followed"), from, done));
        } else {
            let net = done.since(from);
            let others = self.others_on(dev, &[Some(thread.tid), owner.map(|owner| owner.tid)], from, done);
            let text = format!("the {what} took {AMOUNT} until {irq} (block I/O){others}");
            let advice = match is_stacked(dev) {
                _ if kind == "discard" => "the file system discards the blocks of deleted files at once: mount it without discard, and run fstrim when nothing waits for the device",
                true => "this device passes its requests on to others: keep disk I/O out of the interval; block:* and workqueue:* would show what took this long",
                false => "the device took this long: keep disk I/O out of the interval, or use a faster device or an I/O scheduler for it",
            };
            self.say(Weight::Blame, net, text, format!("block I/O: device {}", device(dev)), advice);
            let label = format!("{what} {is} in flight (block I/O)");
            parts.push(self.awaited(&what, label, from, done, &[issued, Some(complete)]));
        }
        let label = format!(
            "{} completes the request and wakes {thread}",
            by.as_ref().map_or(irq.clone(), Thread::to_string)
        );
        match by {
            None => parts.push(self.leaf(Kind::HardIrq, label, done, b, &[Some(complete)])),
            Some(by) if done < b => {
                let inside = self.life(&by, done, b, depth + 1);
                let mut group = Segment::group(Kind::Blocked, label, done, b.since(done), inside);
                group.evidence.push(self.record.evidence(complete));
                parts.push(group);
            }
            Some(_) => {}
        }
        parts
    }

    /// The parts of `rest` up to the issue of a request at `issued`, which `thread` waits for.
    fn until_issued(&mut self, thread: &Thread, issued: u32, rest: &mut Rest, depth: usize) -> Vec<Segment> {
        let at = self.record.event(issued).at;
        let (mut parts, from) = (Vec::new(), rest.from());
        let Some(issuer) = self.linked.actor(issued).filter(|_| at > from) else {
            let (a, at) = rest.until(at);
            let label = "until the request is issued to the disk".to_owned();
            return vec![self.leaf(Kind::Blocked, label, a, at, &[Some(issued)])];
        };
        let is_other = issuer.tid != thread.tid;
        // A worker did nothing for it before it was told to.
        if let Some((start, work, _)) = self.linked.executing(issuer.tid, at).filter(|_| is_other) {
            let started = self.record.event(start).at;
            let queued = self.linked.queued(work, started).map(|index| self.record.event(index).at);
            let (a, queued) = rest.until(queued.unwrap_or(started));
            let label = "the request waited until a worker was to issue it: for what is not recorded";
            parts.push(Segment::unexplained(Kind::Blocked, label, a, queued.since(a)));
        }
        let span = rest.until(at);
        if is_other {
            parts.push(self.until(&issuer, "issues the request", span, depth));
        }
        parts
    }

    /// `, which meanwhile served 3 requests of dd/194`: other requests issued to the device before ours completed.
    fn others_on(&self, dev: u32, own: &[Option<Tid>], from: Mono, done: Mono) -> String {
        let since = Mono(from.0.saturating_sub(BUSY.0));
        let mut of: BTreeMap<String, u32> = BTreeMap::new();
        for cpu in self.record.cpus() {
            for (index, event) in self.record.events_on(cpu, since, done) {
                let What::BlockIssue { dev: on, .. } = event.kind else { continue };
                let others = |who: &Thread| !own.contains(&Some(who.tid)) && !self.path.contains(&who.tid);
                let who = self.linked.owner(index).filter(others);
                if let Some(who) = who.filter(|_| on == dev) {
                    *of.entry(who.to_string()).or_default() += 1;
                }
            }
        }
        match of.into_iter().max_by_key(|(_, count)| *count) {
            Some((who, 1)) => format!(", on a device that was also given a request of {who}"),
            Some((who, count)) => format!(", on a device that was also given {count} requests of {who}"),
            None => String::new(),
        }
    }

    /// The interrupt of a completed request: the interrupt of the device raised the softirq that completed it.
    fn disk_interrupt(&self, complete: u32, from: Mono, label: &str) -> String {
        if !label.starts_with("softirq") {
            return label.to_owned();
        }
        let completion = self.record.event(complete);
        let last = |cpu| {
            let mut before = self.record.events_on(cpu, from, completion.at).rev();
            before.find_map(|(index, event)| match event.kind {
                What::IrqEntry { irq, .. } => Some((event.at, self.record.irq_name(irq, Some(index)), cpu)),
                _ => None,
            })
        };
        let found =
            last(completion.cpu).or_else(|| self.record.cpus().filter_map(last).max_by_key(|(at, ..)| *at));
        match found {
            Some((_, name, cpu)) => format!("{name} on CPU {cpu} and {label}"),
            None => label.to_owned(),
        }
    }

    /// A packet: the time of its sender until it was sent, then its transfer.
    pub(super) fn packet(
        &mut self,
        thread: &Thread,
        sent: Option<u32>,
        received: u32,
        softirq: &str,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let event = self.record.event(received);
        let (at, cpu) = (event.at, event.cpu);
        let device = match event.kind {
            What::NetReceive { device: Some(device), .. } => self.record.text(device),
            _ => "?",
        };
        let mut parts = Vec::new();
        let mut rest = Rest::of((a, b));
        let sender = sent.and_then(|index| Some((index, self.linked.actor(index)?)));
        if let Some(index) = sent.filter(|_| sender.is_none()) {
            // Sent by this machine in an interrupt: by a timer, or in reply to another packet.
            let (a, sent_at) = rest.until(self.record.event(index).at);
            if sent_at > a {
                let cause = self.behind(thread, index);
                let before = self.given_by(cause, Some(index), thread, (a, sent_at), "", depth + 1);
                let label = format!("until the packet is sent over {device}, in an interrupt");
                let mut group = Segment::group(Kind::Blocked, label, a, sent_at.since(a), before);
                group.evidence.push(self.record.evidence(index));
                parts.push(group);
            }
        } else if let Some((index, sender)) = sender {
            let (a, sent_at) = rest.until(self.record.event(index).at);
            if sent_at > a {
                let text = format!("the network packet it waited for came from {sender} over {device} (socket, softirq NET_RX) after {AMOUNT}");
                self.say(Weight::Frame, sent_at.since(a), text, String::new(), "");
                let did = format!("sends the packet over {device}");
                let mut group = self.until(&sender, &did, (a, sent_at), depth);
                group.evidence.push(self.record.evidence(index));
                parts.push(group);
            }
        } else if at > a && self.lossy {
            let (a, at) = rest.until(at);
            parts.push(self.unsure("the sender of the packet is not known", a, at));
        } else if at > a {
            let (a, at) = rest.until(at);
            let net = at.since(a);
            let text = format!(
                "{} waited {AMOUNT} for a network packet on {device} ({softirq})",
                self.subject(thread, depth)
            );
            self.say(
                Weight::Blame,
                net,
                text,
                format!("waited for: packet on {device}"),
                "this is the time until the packet came: look at its sender",
            );
            parts.push(self.leaf(
                Kind::Blocked,
                format!("waits for a packet on {device}"),
                a,
                at,
                &[Some(received)],
            ));
            self.ask_for_net(sent);
        }
        let (from, b) = rest.last();
        if from < b {
            let label =
                format!("delivery of the packet: {softirq} on CPU {cpu} → socket → wake-up of {thread}");
            let inside = self.on_the_way(cpu, from, b);
            let mut group = Segment::group(Kind::Softirq, label, from, b.since(from), inside);
            group.evidence.push(self.record.evidence(received));
            parts.push(group);
        }
        parts
    }

    /// A function-call IPI from another CPU.
    pub(super) fn call(
        &mut self,
        thread: &Thread,
        queued: Option<u32>,
        entry: u32,
        function: &str,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let cpu = self.record.event(entry).cpu;
        let mut parts = Vec::new();
        let mut rest = Rest::of((a, b));
        if let Some(index) = queued {
            let (a, at) = rest.until(self.record.event(index).at);
            match self.linked.actor(index) {
                Some(caller) if at > a => parts.push(self.until(&caller, "sends the IPI", (a, at), depth)),
                None if at > a => {
                    let cause = self.behind(thread, index);
                    parts.extend(self.given_by(cause, queued, thread, (a, at), "", depth + 1));
                }
                _ => {}
            }
        } else {
            // Before the interrupt, no event shows the call.
            let (a, at) = rest.until(self.record.event(entry).at);
            if at > a {
                self.ask("csd_queue_cpu");
                let label =
                    format!("until the function-call IPI {function} came: its sender is not recorded");
                parts.push(Segment::unexplained(Kind::Blocked, label, a, at.since(a)));
            }
        }
        let (from, b) = rest.last();
        if from < b {
            let text = format!(
                "{} waited {AMOUNT} for the function-call IPI {function} on CPU {cpu}",
                self.subject(thread, depth)
            );
            self.say(
                Weight::Blame,
                b.since(from),
                text,
                format!("IPI: {function}"),
                "find the code that kept interrupts off on that CPU",
            );
            let inside = self.on_the_way(cpu, from, b);
            let label = format!("function-call IPI {function} to CPU {cpu}, which wakes {thread}");
            let mut group = Segment::group(Kind::Vector, label, from, b.since(from), inside);
            group.evidence.push(self.record.evidence(entry));
            parts.push(group);
        }
        parts
    }

    fn ask_for_net(&mut self, sent: Option<u32>) {
        if sent.is_none()
            && !self.record.window.events.iter().any(|event| matches!(event.kind, What::NetQueue { .. }))
        {
            self.ask("net_dev_queue");
        }
    }
}
