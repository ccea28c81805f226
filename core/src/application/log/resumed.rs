//! A wait that continues after a stop: in restart_syscall(2), which is not a place of its own.
//!
//! The kernel makes that call for relative sleeps, polls and waits with a timeout if no signal handler ran. The program
//! has not continued in between.

use super::super::sums::missing_between;
use crate::trace::activation::{Activation, Point};

/// Point, site and stack of the wait before the stop; `None`: not known.
#[derive(Clone, Copy, Default)]
pub(super) struct WaitedIn(Option<(Point, u32, u16)>);

impl WaitedIn {
    /// `activation`, which follows `last`, with restart_syscall replaced by the original wait; `None`: as it is.
    pub fn resumed(
        &mut self,
        activation: &Activation,
        last: Option<&Activation>,
        name: fn(Point) -> Option<&'static str>,
    ) -> Option<Activation> {
        if last.is_none_or(|last| missing_between(last, activation).0 > 0) {
            self.0 = None;
        }
        if name(activation.point) == Some("restart_syscall") {
            let waited_in = self.0.unwrap_or((activation.point, activation.site, activation.stack));
            let (point, site, stack) = waited_in;
            return Some(Activation { point, site, stack, ..*activation });
        }
        if activation.point.syscall != Point::STOPPED {
            self.0 = Some((activation.point, activation.site, activation.stack));
        }
        None
    }
}
