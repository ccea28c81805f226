//! The motion controller of `../motion-c` in Rust:
//! `lathunt trace --user -o /tmp/trace -- target/release/motion 200`, then `babeltrace2 /tmp/trace`.

use std::thread;
use std::time::{Duration, Instant};

use lathunt_tracer::field::Text;

lathunt_tracer::enumeration!(State: u8 { IDLE = 0, MOVING = 1, FAULT = 2 });
lathunt_tracer::event!(Configured = "motion:configured" { machine: Text<32>, axes: u32 });
lathunt_tracer::event!(Setpoint = "motion:setpoint" { axis: u32, position: f64, mode: State });
lathunt_tracer::span!(Control = "motion:control" { axis: u32, cycle: u64 });

fn control(axis: u32, cycle: u64) -> f64 {
    let _passage = Control::begin(axis, cycle); // ends wherever the function is left
    (0..200).map(|step| (cycle % 100) as f64 / f64::from(1 + axis + step)).sum()
}

fn run_axis(axis: u32, cycles: u64) {
    let name = [c"axis-0", c"axis-1"][axis as usize];
    lathunt_tracer::thread_init(Some(name)); // before the deadlines: it takes memory
    let start = Instant::now();
    for cycle in 0..cycles {
        let position = control(axis, cycle);
        Setpoint::emit(axis, position, if cycle % 10 == 0 { State::IDLE } else { State::MOVING });
        let next = start + Duration::from_millis(cycle + 1);
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn main() {
    let cycles = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1000);
    Configured::emit_init("two-axis gantry", 2);
    thread::scope(|axes| {
        for axis in 0..2 {
            axes.spawn(move || run_axis(axis, cycles));
        }
    });
}
