//! How a measuring thread preserves the evidence of a late wake-up, without a system call.

use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::Arc;

use lathunt_core::time::Cpu;

use super::block::{Blocks, CpuBlock, FREE};
use super::losses::NO_BUFFER_USER;

const TRIGGER_USER: u32 = 2;

/// Requests a freeze of one CPU's flight ring. Cheap to clone, usable in a real-time thread.
#[derive(Clone)]
pub struct Freezer {
    pub(super) blocks: Arc<Blocks>,
    pub(super) cpu: Cpu,
}

impl Freezer {
    /// Requests a freeze on this CPU and returns its future id; about 20 ns, no system call.
    ///
    /// The freeze happens in the kernel at the next context switch of that CPU, or 16 events later. A freeze that is
    /// already requested (by the kernel side, for the same late wake-up) is shared. `None` if every buffer waits to
    /// be read, which is counted, or if the CPU is not recorded.
    #[must_use]
    pub fn freeze(&self) -> Option<u64> {
        let block = self.blocks.of(self.cpu).filter(|block| block.on.load(Relaxed) != 0)?;
        if !block.buffer.iter().any(|buffer| buffer.state.load(Relaxed) == FREE) {
            block.lost[NO_BUFFER_USER].fetch_add(1, Relaxed);
            return None;
        }
        Some(ask(block))
    }

    /// Page faults of user code on this CPU since its last context switch, if the kernel reports them (x86). One
    /// load.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.blocks.of(self.cpu).map_or(0, |block| block.faults.load(Relaxed))
    }

    /// Steal time of this CPU in ns since boot, as accounted by the kernel at the last timer interrupt; 0 if unknown.
    /// One load.
    #[must_use]
    pub fn host_stole_ns(&self) -> u64 {
        self.blocks.of(self.cpu).map_or(0, |block| block.host_stole_ns.load(Relaxed))
    }
}

/// A freeze may happen between the two steps: the id then tells which of them carried the request.
fn ask(block: &CpuBlock) -> u64 {
    let before = block.serial.load(Acquire);
    block.request.fetch_or(TRIGGER_USER, SeqCst);
    let after = block.serial.load(SeqCst);
    let pending = block.request.load(SeqCst) & TRIGGER_USER != 0;
    match after == before {
        true => before + 1,
        false => after + u64::from(pending),
    }
}
