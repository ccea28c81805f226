//! Queries the kernel side's bin for a latency: verifies that src/bpf/hist.h equals `Layout::LATENCY`.

use lathunt_core::time::Ns;
use libbpf_rs::ProgramInput;

use crate::bpf_object;
use crate::error::{Error, Result};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/parity.bpf.o.gz"));

/// The bin of each latency, as the BPF code computes it (`BPF_PROG_TEST_RUN`).
///
/// # Errors
/// If the kernel refuses to load or run the program.
pub fn kernel_bins(latencies: &[Ns]) -> Result<Vec<usize>> {
    let loaded = bpf_object::load("parity", bpf_object::open("parity", OBJECT)?)?;
    let program = loaded.progs_mut().next();
    let program = program.ok_or_else(|| Error::refused("find", "the program bin_of", ""))?;
    let ask = |latency: &Ns| {
        let mut context = latency.0.to_ne_bytes();
        let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
        program.test_run(input).map(|output| output.return_value as usize)
    };
    latencies
        .iter()
        .map(|latency| ask(latency).map_err(|error| Error::new("run", "the program bin_of", error)))
        .collect()
}
