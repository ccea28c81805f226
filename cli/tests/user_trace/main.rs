//! The user-space tracer from end to end: C programs built with the installed header and pkg-config, recorded by the
//! real binary, read back byte by byte and by babeltrace2.

mod death;
mod examples;
mod hardship;
mod lab;
mod live;
mod stream;
mod with_kernel;
