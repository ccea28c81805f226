//! One file per command: arguments, output, exit code. What is measured and judged lives in `host` and `core`.

pub mod cyclic;
pub mod cyclictest;
pub mod import;
