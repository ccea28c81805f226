//! Late gaps of `npt` during the measurement.

use anyhow::bail;
use lathunt_core::conditions::ENDED_BY_STOP_AT;
use lathunt_core::peak::Peak;
use lathunt_core::time::Ns;
use lathunt_host::instrument::npt::Live;

use crate::on_late::OnLate;

/// Acts on the largest of the new gaps, if allowed now.
pub(super) fn act(on_late: Option<&mut OnLate>, late: Vec<Peak>) {
    let Some(on_late) = on_late else { return };
    let ready = on_late.is_ready();
    on_late.noticed(late.len() as u64);
    let foreign = late.into_iter().filter(|peak| !on_late.is_own(peak));
    if let Some(worst) = foreign.max_by_key(|peak| peak.total_ns).filter(|_| ready) {
        on_late.act(&worst, |_| bail!("npt keeps no traces"));
    }
}

/// Message that an iteration was longer than `limit`.
pub(super) fn above(lanes: &[Live], limit: Option<Ns>) -> Option<String> {
    let limit = limit?;
    let lane = lanes.iter().filter(|lane| lane.longest > Some(limit)).max_by_key(|lane| lane.longest)?;
    let (longest, limit) = lane.longest?.told_apart(limit);
    Some(format!("{ENDED_BY_STOP_AT}an iteration of {longest} on CPU {}, above {limit}", lane.cpu))
}
