//! Slices of a CPU during a stall of the whole machine.

use super::{Context, Slice, Timeline};
use crate::time::Mono;

impl Timeline {
    /// Marks its threads in `[begin, end)` as stalled: they were on the CPU, but did not run.
    pub fn stall(&mut self, begin: Mono, end: Mono) {
        let mut place = self.slices.partition_point(|slice| slice.end <= begin);
        while let Some(&slice) = self.slices.get(place).filter(|slice| slice.begin < end) {
            if slice.begin < begin {
                self.slices[place] = Slice { end: begin, faults: 0, ..slice };
                self.slices.insert(place + 1, Slice { begin, ..slice });
            } else {
                if slice.end > end {
                    self.slices[place] = Slice { end, faults: 0, ..slice };
                    self.slices.insert(place + 1, Slice { begin: end, ..slice });
                }
                if slice.context.is_task() {
                    self.slices[place].context = Context::Stalled;
                }
            }
            place += 1;
        }
    }
}
