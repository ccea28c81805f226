//! Names of the files beside a trace or a run, for their writers and readers.

/// Memory maps of the processes.
pub const MAPS_FILE: &str = "maps";
/// /proc/interrupts, beside a flight recording, which has only line numbers.
pub const INTERRUPTS_FILE: &str = "interrupts";
/// Kernel symbols, if the trace does not contain them.
pub const KALLSYMS_FILE: &str = "kallsyms";
/// Directory of these files in a trace exported as CTF, whose own directory contains only streams.
pub const BESIDE_CTF: &str = "lathunt";
/// What was recorded under which conditions.
pub const CONDITIONS_FILE: &str = "conditions.json";
/// The rings of the BPF recorder.
pub const FLIGHT_FILE: &str = "flight.bin";
