//! Time that the host took from a virtual CPU, by its own account.
//!
//! The steal clock says how much was taken between two readings, not when (`Kind::HostSteal`). Of a stretch inside these
//! readings, at least `taken - (time between the readings - stretch)` was taken: the rest of that time is too short to
//! hold it. Where something recorded had the CPU, only this part is the host's: nobody is blamed for standing still,
//! and nobody goes free for what may have been elsewhere. Where nothing else is known of the stretch, it may be all of it.
//!
//! Source: arch/x86/kernel/kvm.c (`kvm_steal_clock`), Documentation/virt/kvm/x86/msr.rst (`MSR_KVM_STEAL_TIME`): the time
//! in which the virtual CPU wanted to run and did not.

use super::cpu::Context;
use super::record::Record;
use super::segment::{Evidence, Kind, Segment};
use super::share::{Phase, Role, Share};
use crate::time::{Cpu, Mono, Ns};
use crate::trace::event::Kind as What;

/// Below this, a part that is surely the host's is not worth a leaf beside what is recorded.
const WORTH_A_LEAF: Ns = Ns::from_us(10);

/// The host's account of a stretch of a CPU.
pub struct Stolen {
    phase: Phase,
    cpu: Cpu,
    span: Ns,  // between the readings
    total: Ns, // taken in it
    left: Ns,  // of that, not yet put anywhere
    evidence: Vec<Evidence>,
}

impl Stolen {
    /// All readings that have to do with `[a, b)` on `cpu`; costs a walk over the events from `a` to the last of them.
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

    /// Takes the host's part out of a share that the record explains otherwise.
    pub fn surely(&mut self, share: &mut Share) -> Option<Share> {
        let elsewhere = self.span.saturating_sub(share.net);
        let sure = self.total.saturating_sub(elsewhere).min(self.left).min(share.net);
        (sure >= WORTH_A_LEAF).then(|| self.take(share, sure, false))
    }

    /// Takes the host's part out of a share of which nothing else is known.
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

    /// The leaf of a part taken; it does not name who stood still, and ranks as one cause.
    #[must_use]
    pub fn leaf(host: &Share) -> Segment {
        host.leaf(format!("the host did not run CPU {}", host.cpu))
    }
}
