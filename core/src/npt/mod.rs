//! The non-preempt test: what interrupts a thread that never stops?
//!
//! A loop reads the clock; the distance of two reads is a *turn*. Almost all turns are as long as the loop itself, and a
//! turn at or above a threshold is a *gap*. [`turns`] counts turns, [`gap`] holds one gap against the kernel's record,
//! [`ledger`] adds up who took the time, [`text`] prints, [`matrix`] compares tracers. Method: M. Beamonte and
//! M. R. Dagenais (2012), who could switch interrupts off; here they stay on, and every gap is attributed instead.
//!
//! Not here: the loop itself, which is `host::instrument::npt`.

pub mod gap;
pub mod ledger;
pub mod matrix;
pub mod text;
pub mod turns;
