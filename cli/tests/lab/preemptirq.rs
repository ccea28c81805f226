//! When interrupts and preemption were off on CPU 0, out of the text of ftrace's events: the rules of
//! host/src/bpf/potential.bpf.c once more, from what another tool saw.

use lathunt_core::series::Quantity;

/// One of them.
#[derive(Clone, Debug)]
pub struct Interval {
    pub quantity: Quantity,
    pub end_us: u64,
    pub length_us: u64,
    /// When ftrace saw the next event: its own probe may take until then, and ours runs after it.
    pub next_us: u64,
    /// `in FUNCTION+0x…`, or `since idle`.
    pub begun: String,
}

/// Where the kernel turns interrupts off to tell an event: not ours to count.
const TELLING: [&str; 2] = ["caller=ct_irq_enter_irqson+", "caller=ct_irq_exit_irqson+"];

#[derive(Default)]
struct State {
    off: [bool; 2], // interrupts, preemption
    since: [Option<(u64, String)>; 3],
    found: Vec<Interval>,
}

const KINDS: [Quantity; 3] = [Quantity::Irqsoff, Quantity::Preemptoff, Quantity::Preemptirqsoff];
const BOTH: usize = 2;

impl State {
    fn end(&mut self, kind: usize, at: u64) {
        if let Some((since, begun)) = self.since[kind].take() {
            self.found.push(Interval {
                quantity: KINDS[kind],
                end_us: at,
                length_us: at - since,
                next_us: at,
                begun,
            });
        }
    }

    fn off(&mut self, kind: usize, at: u64, begun: &str) {
        if !std::mem::replace(&mut self.off[kind], true) {
            self.since[kind] = Some((at, begun.to_owned()));
            if self.off == [true; 2] {
                self.since[BOTH] = Some((at, begun.to_owned()));
            }
        }
    }

    fn on(&mut self, kind: usize, at: u64) {
        if self.off[kind] {
            if self.off == [true; 2] {
                self.end(BOTH, at);
            }
            self.end(kind, at);
            self.off[kind] = false;
        }
    }

    fn idle(&mut self, at: u64, ends: bool) {
        for kind in 0..KINDS.len() {
            let is_off = if kind == BOTH { self.off == [true; 2] } else { self.off[kind] };
            match ends {
                true if is_off => self.since[kind] = Some((at, "since idle".to_owned())),
                true => {}
                false => self.end(kind, at),
            }
        }
    }
}

/// All of them, in the order of their ends.
pub fn intervals(trace: &str) -> Vec<Interval> {
    let mut state = State::default();
    let mut lasting = 0;
    for (at, event, told) in trace.lines().filter_map(event) {
        state.found[lasting..].iter_mut().for_each(|one| one.next_us = at);
        lasting = state.found.len();
        let caller = told.split(' ').next().unwrap_or_default();
        // `function+0x12/0x40`; our names have no size.
        let begun = caller.replace("caller=", "in ");
        let begun = begun.split('/').next().unwrap_or_default();
        match event {
            "irq_disable" if TELLING.iter().any(|telling| told.starts_with(telling)) => {}
            "irq_disable" => state.off(0, at, begun),
            "preempt_disable" => state.off(1, at, begun),
            "irq_enable" => state.on(0, at),
            "preempt_enable" => state.on(1, at),
            "cpu_idle" => state.idle(at, told.starts_with("state=4294967295 ")),
            _ => {}
        }
    }
    state.found
}

/// `  lathunt-66      [000] d...2..     5.311038: irq_enable: caller=…`: µs, name, fields.
fn event(line: &str) -> Option<(u64, &str, &str)> {
    let (_, rest) = line.split_once("] ")?;
    let mut words = rest.trim_start().splitn(2, ' ');
    words.next()?; // flags
    let (at, rest) = words.next()?.trim_start().split_once(": ")?;
    let (seconds, micros) = at.split_once('.')?;
    let at = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let (name, told) = rest.split_once(": ")?;
    Some((at, name, told))
}

#[test]
fn what_was_off_is_reckoned_from_the_lines_of_ftrace() {
    let trace = "# tracer: nop\n\
        \x20 sh-66      [000] d...2..     5.000010: preempt_disable: caller=a+0x1/0x9 parent=a+0x1/0x9\n\
        \x20 sh-66      [000] d...2..     5.000012: irq_disable: caller=ct_irq_enter_irqson+0x17/0x30 parent=0x0\n\
        \x20 sh-66      [000] d...2..     5.000013: irq_enable: caller=ct_irq_enter_irqson+0x21/0x30 parent=0x0\n\
        \x20 sh-66      [000] d...2..     5.000020: irq_disable: caller=b+0x2/0x9 parent=0x0\n\
        \x20 <idle>-0   [000] d...2..     5.000025: cpu_idle: state=1 cpu_id=0\n\
        \x20 <idle>-0   [000] d...2..     5.900000: cpu_idle: state=4294967295 cpu_id=0\n\
        \x20 sh-66      [000] d...2..     5.900004: irq_enable: caller=c+0x3/0x9 parent=0x0\n";
    let found: Vec<_> =
        intervals(trace).into_iter().map(|one| (one.quantity, one.length_us, one.begun)).collect();
    let expected = [
        (Quantity::Irqsoff, 5, "in b+0x2"),
        (Quantity::Preemptoff, 15, "in a+0x1"),
        (Quantity::Preemptirqsoff, 5, "in b+0x2"),
        (Quantity::Preemptirqsoff, 4, "since idle"),
        (Quantity::Irqsoff, 4, "since idle"),
    ];
    assert_eq!(found, expected.map(|(quantity, length, begun)| (quantity, length, begun.to_owned())));
}
