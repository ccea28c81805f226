//! The lab: does it also work on a real PREEMPT_RT kernel? Debian's is booted in QEMU with our static binary, runs the
//! scenarios of `lab/scenarios/`, and what they left behind is judged here, outside.
//!
//! Each machine of [`GUESTS`] is booted once, for all tests that ask for it. Where it has two CPUs, sizes are judged
//! generously: an emulated CPU is itself late by milliseconds. Exact there are the *causes* of latencies, and that
//! parts add up. In virtual time sizes are exact, too.

mod arm64;
mod boot;
mod fibers;
mod freeze;
mod guest;
mod hidden;
mod machine;
mod monitor;
mod record;
mod runs;
mod suspend;

use boot::Outcome;
use guest::{Guest, SILENCE, SILENCE_OF_VIRTUAL_TIME, TWO_CPUS, VIRTUAL_TIME};

/// In the order in which they are asked for results that more than one has.
const GUESTS: &[Guest] = &[
    Guest {
        name: "virtual-time",
        kernel: "amd64",
        machine: VIRTUAL_TIME,
        scenarios: &["kernel", "exact", "beside", "timerlat", "check"],
        silence: SILENCE_OF_VIRTUAL_TIME,
    },
    Guest {
        name: "two-cpus",
        kernel: "amd64",
        machine: TWO_CPUS,
        scenarios: &[
            "hunt", "frozen", "matrix", "record", "hidden", "monitor", "suspend", "hwlat", "isolate",
            "fibers",
        ],
        silence: SILENCE,
    },
    Guest {
        name: "arm64",
        kernel: "arm64-6.12",
        machine: TWO_CPUS,
        scenarios: &["kernel", "check", "clock", "pulses", "jobs"],
        silence: SILENCE,
    },
];

#[test]
#[ignore = "lab: run by make test"]
fn the_guest_runs_a_preempt_rt_kernel_and_our_binary_starts_there() {
    let Some(kernel) = Outcome::of("kernel", "lab: kernel") else { return };
    is_preempt_rt(&kernel);
}

fn is_preempt_rt(kernel: &Outcome) {
    assert!(kernel.text("version").contains("PREEMPT_RT"), "{}", kernel.text("version"));
    assert_eq!(kernel.text("realtime").trim(), "1");
    let tracers = kernel.text("tracers");
    for peer in ["timerlat", "osnoise", "hwlat"] {
        assert!(
            tracers.split_ascii_whitespace().any(|tracer| tracer == peer),
            "{peer} is not among {tracers}"
        );
    }
    assert_eq!(kernel.text("lathunt-version").trim(), concat!("lathunt ", env!("CARGO_PKG_VERSION")));
}
