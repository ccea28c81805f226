//! The non-preempt test: what interrupts a busy loop?
//!
//! A loop reads the clock; the interval between two reads is an *iteration* (`turn` in names). An iteration at or above
//! a threshold is a *gap*. [`turns`] counts iterations, [`gap`] explains one gap from the trace, [`ledger`] sums the
//! time by source, [`text`] prints, [`matrix`] compares tracers. Method: M. Beamonte and M. R. Dagenais (2012), who
//! disabled interrupts; here they stay enabled, and every gap is attributed instead.
//!
//! Not here: the loop itself (`host::instrument::npt`).

pub mod gap;
pub mod ledger;
pub mod matrix;
pub mod text;
pub mod turns;
