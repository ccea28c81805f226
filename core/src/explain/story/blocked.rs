//! Blocked: what the thread asked for, and the life of whoever gave it.

use super::clauses::Weight;
use super::reason::{is_futex, Asked, Reason};
use super::wakers::Waker;
use super::Walk;
use crate::explain::record::describe::device;
use crate::explain::segment::{Kind, Segment};
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::{Mono, Ns};
use crate::trace::event::Kind as What;

impl Walk<'_, '_> {
    /// The parts of a blocked stretch.
    pub(super) fn blocked(
        &mut self,
        thread: &Thread,
        stretch: &Stretch,
        reason: &Reason,
        depth: usize,
    ) -> Vec<Segment> {
        let (a, b) = (stretch.begin, stretch.end);
        let waker = self.waker(thread, stretch);
        if !matches!(waker, Waker::OwnTimer { .. } | Waker::Unknown(_)) {
            self.frame(thread, stretch, reason, &waker, depth);
        }
        self.ended_by(waker, thread, (a, b), &reason.text, depth)
    }

    /// The parts of `[a, b)`, at whose end `waker` did what `thread` waited for; `text` says in what.
    fn ended_by(
        &mut self,
        waker: Waker,
        thread: &Thread,
        (a, b): (Mono, Mono),
        text: &str,
        depth: usize,
    ) -> Vec<Segment> {
        match waker {
            Waker::Unknown(why) => {
                vec![Segment::unexplained(
                    Kind::Blocked,
                    format!("{thread} blocked{text}: {why}"),
                    a,
                    b.since(a),
                )]
            }
            Waker::Thread(other) => self.life(&other, a, b, depth + 1),
            Waker::Work { worker, function, start, queued } => {
                self.work(&worker, &function, start, queued, (a, b), depth)
            }
            Waker::OwnTimer { firing, expires, proof } => {
                self.own_timer(thread, (a, b), &firing, expires, proof, text, depth)
            }
            Waker::TimerOf { who, armed, firing, expires } => {
                self.timer_of(thread, who, armed, &firing, expires, (a, b), depth)
            }
            Waker::Timeout { proof } => {
                let net = b.since(a);
                let told = format!("{} waited {{}} for its own timeout", self.subject(thread, depth));
                self.say(
                    Weight::Wanted,
                    net,
                    told,
                    "its own timeout".to_owned(),
                    "the thread waited as long as it asked for",
                );
                vec![self.leaf(
                    Kind::Blocked,
                    format!("{thread} waits for its own timeout (timer wheel)"),
                    a,
                    b,
                    &[proof],
                )]
            }
            Waker::Request { issued, complete, irq, entry } => {
                self.request(thread, issued, complete, &irq, entry, (a, b), depth)
            }
            Waker::Packet { sent, received, softirq } => {
                self.packet(thread, sent, received, &softirq, (a, b), depth)
            }
            Waker::Call { queued, entry, function } => {
                self.call(thread, queued, entry, &function, (a, b), depth)
            }
            Waker::Interrupt { label, proof } => {
                let net = b.since(a);
                let told = format!("{} waited {{}} for {label}", self.subject(thread, depth));
                let advice =
                    format!("this is the time until {label} came: look at the device or timer behind it");
                self.say(Weight::Blame, net, told, format!("waited for: {label}"), advice);
                vec![self.leaf(Kind::Blocked, format!("waited for {label}"), a, b, &[proof])]
            }
        }
    }

    /// The clause that says what was asked for and who had it.
    fn frame(&mut self, thread: &Thread, stretch: &Stretch, reason: &Reason, waker: &Waker, depth: usize) {
        let net = stretch.length();
        let subject = self.subject(thread, depth);
        let by = self.signal(stretch).unwrap_or_default();
        let (text, cause, advice) = match (&reason.what, waker) {
            (Asked::Futex { inherits: true, .. }, Waker::Thread(owner)) => {
                let boost = self.boost(owner, stretch);
                (
                    format!("{subject} was blocked {{}}{}, held by {owner}{boost}", reason.text),
                    format!("PI mutex of {}", owner.comm),
                    format!("the price of the critical section of {}: shorten it; inheritance already bounds the inversion", owner.comm),
                )
            }
            (Asked::Futex { address, .. }, Waker::Thread(owner)) => {
                let released = self.wakes(owner, *address, stretch.end);
                let how = if released { "released by" } else { "woken by" };
                (format!("{subject} was blocked {{}}{} (mutex or condition without inheritance), {how} {owner}{by}", reason.text), String::new(), String::new())
            }
            (Asked::Page(page), _) => (
                format!("{subject} was blocked {{}} in a page fault on {page}"),
                "page fault".to_owned(),
                "lock and touch the mapped file before it is needed (mlockall, MAP_POPULATE, MAP_LOCKED), or read it in a thread of its own".to_owned(),
            ),
            (_, Waker::Thread(other)) => {
                (format!("{subject} was blocked {{}}{} until {other} woke it{by}", reason.text), String::new(), String::new())
            }
            _ => (format!("{subject} was blocked {{}}{}{by}", reason.text), String::new(), String::new()),
        };
        self.say(Weight::Frame, net, text, cause, advice);
    }

    /// ` boosted to RT 80 (sched_pi_setprio 120 => 19)`, where the owner was.
    fn boost(&self, owner: &Thread, stretch: &Stretch) -> String {
        let from = Mono(stretch.begin.0.saturating_sub(Ns::from_ms(1).0));
        let Some(index) = self.linked.boosted(owner.tid, from, stretch.end) else { return String::new() };
        match self.record.event(index).kind {
            What::PiSetprio { old, new, .. } => format!(
                ", which is {old} by itself and was boosted to {new} by priority inheritance (sched_pi_setprio {} => {})",
                old.0, new.0
            ),
            _ => String::new(),
        }
    }

    /// Whether `owner` is in a futex wake of this address at `at`: then it is who released it.
    fn wakes(&self, owner: &Thread, address: u64, at: Mono) -> bool {
        let call = self.linked.in_call(owner.tid, at);
        call.is_some_and(|(_, id, args)| is_futex(id) && args[0] == address)
    }

    /// A signal generated in the waking's context just before it.
    fn signal(&self, stretch: &Stretch) -> Option<String> {
        let waking = self.record.event(stretch.ended_by?);
        let from = Mono(waking.at.0.saturating_sub(Ns::from_us(50).0));
        // The event stands behind the waking that the signal caused.
        let until = waking.at + Ns::from_us(50);
        let mut around = self
            .record
            .events_on(waking.cpu, from, until)
            .filter(|(_, event)| event.current == waking.current);
        around.find_map(|(_, event)| match event.kind {
            What::SignalGenerate { sig, .. } => Some(format!(" with signal {sig} ({})", signal_name(sig))),
            _ => None,
        })
    }

    /// A work item: until it was queued, who queued it; from then on its worker.
    fn work(
        &mut self,
        worker: &Thread,
        function: &str,
        start: u32,
        queued: Option<u32>,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let mut parts = Vec::new();
        let mut from = a;
        let mut by = String::new();
        if let Some(index) = queued {
            let at = self.record.event(index).at.clamp(a, b);
            let queuer = self.linked.actor(index);
            by = queuer
                .as_ref()
                .map_or(" queued in an interrupt".to_owned(), |queuer| format!(" queued by {queuer}"));
            if at > a {
                let before = match queuer {
                    Some(queuer) => self.life(&queuer, a, at, depth + 1),
                    None => {
                        let cause = self.behind(worker, index);
                        self.ended_by(cause, worker, (a, at), "", depth + 1)
                    }
                };
                let label = format!("until work item {function} is{by}");
                let mut group = Segment::group(Kind::Blocked, label, a, at.since(a), before);
                group.evidence.push(self.record.evidence(index));
                parts.push(group);
            }
            from = at;
        }
        if from < b {
            let label = format!("work item {function} (workqueue){by}, executed by worker {worker}");
            let text =
                format!("work item {function}{by} took {{}} from queue to hand-over in worker {worker}");
            self.say(Weight::Frame, b.since(from), text, String::new(), "");
            let inside = self.life(worker, from, b, depth + 1);
            let mut group = Segment::group(Kind::Blocked, label, from, b.since(from), inside);
            group.evidence.push(self.record.evidence(start));
            parts.push(group);
        }
        parts
    }

    /// A request to a device.
    #[allow(clippy::too_many_arguments)]
    fn request(
        &mut self,
        thread: &Thread,
        issued: Option<u32>,
        complete: u32,
        irq: &str,
        entry: Mono,
        (a, b): (Mono, Mono),
        depth: usize,
    ) -> Vec<Segment> {
        let What::BlockComplete { dev, sector, nr_sector, .. } = self.record.event(complete).kind else {
            return Vec::new();
        };
        let mut parts = Vec::new();
        let mut from = a;
        let mut kind = "request";
        if let Some(index) = issued {
            let event = self.record.event(index);
            if let What::BlockIssue { rwbs: Some(rwbs), .. } = event.kind {
                kind = if self.record.text(rwbs).contains('R') { "read" } else { "write" };
            }
            let at = event.at.clamp(a, b);
            match self.linked.actor(index).filter(|_| at > a) {
                Some(issuer) if issuer.tid != thread.tid => {
                    let before = self.life(&issuer, a, at, depth + 1);
                    let label = format!("until {issuer} issues the request");
                    parts.push(Segment::group(Kind::Blocked, label, a, at.since(a), before));
                }
                _ if at > a => parts.push(self.leaf(
                    Kind::Blocked,
                    "until the request is issued to the disk".to_owned(),
                    a,
                    at,
                    &[issued],
                )),
                _ => {}
            }
            from = at;
        } else {
            self.ask("block_rq_issue");
        }
        let done = entry.clamp(from, b);
        let irq = &self.disk_interrupt(complete, from, irq);
        let what = format!("disk {kind} of {nr_sector} sectors at sector {sector} of device {}", device(dev));
        let net = done.since(from);
        let text = format!("the {what} took {{}} until {irq} (block I/O)");
        self.say(Weight::Blame, net, text, format!("block I/O: device {}", device(dev)),
            "the device took this long: keep disk I/O out of the passage, or use a faster device or an I/O scheduler for it");
        parts.push(self.leaf(
            Kind::Blocked,
            format!("{what} is in flight (block I/O)"),
            from,
            done,
            &[issued, Some(complete)],
        ));
        parts.push(self.leaf(
            Kind::HardIrq,
            format!("{irq} completes the request and wakes {thread}"),
            done,
            b,
            &[Some(complete)],
        ));
        parts
    }

    /// The interrupt of a completed request: the softirq that ends it was raised by the device's own.
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

    /// A packet: its sender's life until it was sent, then its way.
    fn packet(
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
        let mut from = a;
        let sender = sent.and_then(|index| Some((index, self.linked.actor(index)?)));
        if let Some((index, sender)) = sender {
            let sent_at = self.record.event(index).at.clamp(a, b);
            if sent_at > a {
                let text = format!("the network packet it waited for came from {sender} over {device} (socket, softirq NET_RX) after {{}}");
                self.say(Weight::Frame, sent_at.since(a), text, String::new(), "");
                let before = self.life(&sender, a, sent_at, depth + 1);
                let mut group = Segment::group(
                    Kind::Blocked,
                    format!("until {sender} sends the packet over {device}"),
                    a,
                    sent_at.since(a),
                    before,
                );
                group.evidence.push(self.record.evidence(index));
                parts.push(group);
            }
            from = sent_at;
        } else if at > a {
            let net = at.clamp(a, b).since(a);
            let text = format!(
                "{} waited {{}} for a network packet on {device} ({softirq})",
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
                at.clamp(a, b),
                &[Some(received)],
            ));
            from = at.clamp(a, b);
            self.ask_for_net(sent);
        }
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

    /// A function call from another CPU.
    fn call(
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
        let mut from = a;
        if let Some((index, caller)) = queued.and_then(|index| Some((index, self.linked.actor(index)?))) {
            let at = self.record.event(index).at.clamp(a, b);
            if at > a {
                let before = self.life(&caller, a, at, depth + 1);
                parts.push(Segment::group(
                    Kind::Blocked,
                    format!("until {caller} sends the IPI"),
                    a,
                    at.since(a),
                    before,
                ));
            }
            from = at;
        }
        if from < b {
            let text = format!(
                "{} waited {{}} for the function-call IPI {function} on CPU {cpu}",
                self.subject(thread, depth)
            );
            self.say(
                Weight::Blame,
                b.since(from),
                text,
                format!("IPI: {function}"),
                "see who kept interrupts off on that CPU",
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

    /// Notes a tracepoint that would have answered what stayed open.
    pub(super) fn ask(&mut self, tracepoint: &str) {
        self.missing.push(format!("{tracepoint} is not recorded here: it would lead further"));
    }
}

/// Names of the signals that programs wake each other with (x86 and ARM numbers).
fn signal_name(sig: i32) -> String {
    let names = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE",
        "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP",
    ];
    match usize::try_from(sig - 1).ok().and_then(|place| names.get(place)) {
        Some(name) => format!("SIG{name}"),
        None if sig >= 32 => format!("SIGRTMIN+{}", sig - 34),
        None => "signal".to_owned(),
    }
}
