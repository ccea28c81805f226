//! Names of the files that lie beside a trace or a run, for those who write them and those who read them.

/// Memory maps of the processes.
pub const MAPS_FILE: &str = "maps";
/// /proc/interrupts, beside a flight recording: it has numbers of lines only.
pub const INTERRUPTS_FILE: &str = "interrupts";
/// Kernel symbols, where the trace has none in itself.
pub const KALLSYMS_FILE: &str = "kallsyms";
/// Where they are beside a trace exported as CTF, whose own directory holds nothing but streams.
pub const BESIDE_CTF: &str = "lathunt";
/// What was recorded under which conditions.
pub const CONDITIONS_FILE: &str = "conditions.json";
/// The rings of the BPF recorder.
pub const FLIGHT_FILE: &str = "flight.bin";
