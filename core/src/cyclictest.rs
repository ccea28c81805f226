//! The language of cyclictest (rt-tests): its command line and its output formats. Reading them
//! back is in `import`.
//!
//! Twenty years of scripts speak it, so it is spoken here byte for byte: separators, widths, blank lines. Where
//! cyclictest itself is defective (invalid JSON, silent misreading of numbers, exit code 0 for unknown options) this
//! is not: see the module of each part. Written from observed behaviour of rt-tests 2.4; no code of it is used.

pub mod cpu_spec;
pub mod getopt;
pub mod json;
pub mod options;
pub mod plan;
pub mod text;

/// The version of rt-tests whose formats these are, as cyclictest prints it.
pub const RT_TESTS_VERSION: &str = "2.40";
