//! Late samples of `cyclic` during the measurement.

use anyhow::bail;
use lathunt_core::series::Thread;
use lathunt_host::instrument::cyclic::Hooks;

use crate::on_late::{late_samples, LateReceiver, OnLate};

/// From now on each thread reports its late samples.
pub(super) fn watch(on_late: Option<&OnLate>, hooks: &mut [Hooks]) -> Vec<LateReceiver> {
    let Some(above) = on_late.and_then(OnLate::above) else { return Vec::new() };
    let one = |hooks: &mut Hooks| {
        let (hook, receiver) = late_samples(above);
        hooks.sample = Some(hook);
        receiver
    };
    hooks.iter_mut().map(one).collect()
}

/// Acts on the largest late sample since the last call, if an action is allowed now.
pub(super) fn act(on_late: Option<&mut OnLate>, late: &mut [LateReceiver], victims: &[Thread]) {
    let Some(on_late) = on_late else { return };
    let Some(worst) = on_late.samples(late) else { return };
    let victim = victims[worst.thread].clone();
    on_late.act(&worst.peak(victim, NO_EVIDENCE), |_| bail!(NO_EVIDENCE));
}

pub(super) const NO_EVIDENCE: &str = "cyclic alone records no evidence; hunt does";
