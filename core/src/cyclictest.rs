//! cyclictest (rt-tests): its command line and output formats. Parsing of its output is in `import`.
//!
//! Scripts depend on them, so the output is identical byte for byte: separators, widths, blank lines. Defects of
//! cyclictest (invalid JSON, misread numbers, exit code 0 for unknown options) are not reproduced: see the modules.
//! Written from observed behaviour of rt-tests 2.4; none of its code is used.

pub mod cpu_spec;
pub mod getopt;
pub mod json;
pub mod options;
pub mod plan;
pub mod text;

/// The version of rt-tests whose formats these are, as cyclictest prints it.
pub const RT_TESTS_VERSION: &str = "2.40";
