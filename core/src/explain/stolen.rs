//! Steal time of a virtual CPU, as reported by the hypervisor.
//!
//! The steal clock shows how much was stolen between two readings, not when (`Kind::HostSteal`). In a span inside these
//! readings, at least `taken - (time between the readings - span)` was stolen: the rest of that time is too short for
//! it. If a recorded task had the CPU, only this part is attributed to the hypervisor: a task is neither blamed for a
//! stall, nor excused for steal time that may have been elsewhere. If nothing else is known of the span, all of it may
//! be steal time.
//!
//! Source: arch/x86/kernel/kvm.c (`kvm_steal_clock`), Documentation/virt/kvm/x86/msr.rst (`MSR_KVM_STEAL_TIME`): the
//! time in which the virtual CPU was runnable but did not run.

use super::cpu::Context;
use super::record::Record;
use super::segment::{Evidence, Kind, Segment};
use super::share::{Phase, Role, Share};
use crate::time::{Cpu, Mono, Ns};
use crate::trace::event::Kind as What;

/// Minimum certain steal time for a leaf next to recorded tasks.
const WORTH_A_LEAF: Ns = Ns::from_us(10);

/// Steal time of a span of a CPU.
pub struct Stolen {
    phase: Phase,
    cpu: Cpu,
    span: Ns,  // between the readings
    total: Ns, // stolen in it
    left: Ns,  // of that, not attributed yet
    evidence: Vec<Evidence>,
}

impl Stolen {
    /// All readings that overlap with `[a, b)` on `cpu`; cost: a walk over the events from `a` to the last of them.
    #[must_use]
    pub fn over(record: &Record, phase: Phase, cpu: Cpu, a: Mono, b: Mono) -> Stolen {
        let zero = Ns::ZERO;
        let mut stolen = Stolen { phase, cpu, span: zero, total: zero, left: zero, evidence: Vec::new() };
        let mut from = None;
        for (index, event) in record.events_on(cpu, a, record.until()) {
            let What::HostSteal { taken, since } = event.kind else { continue };
            if since >= b || event.at <= a {
                continue;
            }
            stolen.total = stolen.total + taken;
            stolen.span = event.at.since(*from.get_or_insert(since));
            stolen.evidence.push(record.evidence(index));
            if event.at >= b {
                break;
            }
        }
        stolen.left = stolen.total;
        stolen
    }

    /// Takes the certain steal time out of a share that the record explains otherwise.
    pub fn surely(&mut self, share: &mut Share) -> Option<Share> {
        let elsewhere = self.span.saturating_sub(share.net);
        let sure = self.total.saturating_sub(elsewhere).min(self.left).min(share.net);
        (sure >= WORTH_A_LEAF).then(|| self.take(share, sure, false))
    }

    /// Takes the possible steal time out of a share of which nothing else is known.
    pub fn likely(&mut self, share: &mut Share) -> Option<Share> {
        let elsewhere = self.span.saturating_sub(share.net);
        let part = self.left.min(share.net);
        let sure = self.total.saturating_sub(elsewhere);
        (part > Ns::ZERO).then(|| self.take(share, part, sure.0 < part.0 / 2))
    }

    fn take(&mut self, share: &mut Share, part: Ns, inferred: bool) -> Share {
        self.left = self.left.saturating_sub(part);
        share.net = share.net.saturating_sub(part);
        Share {
            phase: self.phase,
            role: Role::Host,
            context: Context::Unknown,
            kind: Kind::Stolen,
            name: "the host".to_owned(),
            cpu: self.cpu,
            begin: share.begin,
            net: part,
            count: 1,
            pieces: Vec::new(),
            thread: None,
            stack: Vec::new(),
            functions: Vec::new(),
            faults: 0,
            evidence: self.evidence.clone(),
            inferred,
        }
    }

    /// The leaf of a part taken; it does not name the stalled task, and ranks as one cause.
    #[must_use]
    pub fn leaf(host: &Share) -> Segment {
        host.leaf(format!("the host did not run CPU {}", host.cpu))
    }
}
