//! Open hard interrupts of a CPU. Handlers run with interrupts off, but a few enable them: then the outer one continues
//! after the exit of the inner one.

use super::Context;
use crate::time::Tid;
use crate::trace::event::Level;

/// Maximum nesting: beyond it, exits were lost.
const DEEPEST: usize = 8;

/// An open interrupt.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub context: Context,
    pub occurrence: u32,
    pub first_slice: usize,
    pub proof: u32,
    /// Level of its entry's event.
    pub level: Level,
}

/// Outermost first.
#[derive(Default)]
pub(super) struct Hard(Vec<Frame>);

impl Hard {
    pub fn top(&self) -> Option<Frame> {
        self.0.last().copied()
    }

    /// Returns the interrupts whose exit must have been lost: a line does not interrupt itself.
    pub fn enter(&mut self, frame: Frame) -> Vec<Frame> {
        let same = self.0.iter().position(|open| open.context == frame.context);
        let lost = match same {
            Some(place) => self.0.split_off(place),
            None if self.0.len() == DEEPEST => std::mem::take(&mut self.0),
            None => Vec::new(),
        };
        self.0.push(frame);
        lost
    }

    /// Returns the interrupts inside it, whose exits were lost; `None`: it is not open.
    pub fn leave(&mut self, context: Context) -> Option<Vec<Frame>> {
        let place = self.0.iter().rposition(|open| open.context == context)?;
        let inside = self.0.split_off(place + 1);
        self.0.pop();
        Some(inside)
    }

    /// Returns it with those inside it, if it is open.
    pub fn end(&mut self, context: Context) -> Vec<Frame> {
        let place = self.0.iter().position(|open| open.context == context);
        self.0.split_off(place.unwrap_or(self.0.len()))
    }

    pub fn take(&mut self) -> Vec<Frame> {
        std::mem::take(&mut self.0)
    }
}

/// The context of a CPU that runs `tid`, outside interrupts.
pub(super) fn task_context(tid: Tid, idle_state: Option<u32>) -> Context {
    if tid == Tid::IDLE {
        Context::Idle(idle_state)
    } else {
        Context::Thread(tid)
    }
}
