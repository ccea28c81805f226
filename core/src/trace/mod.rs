//! Recorded kernel events as one normalized stream, from any recorder.
//!
//! One module per format; [`flight`] is that of our recorder. Decoders turn bytes into [`event::Event`]s, with losses
//! as values; damaged input never aborts.

pub mod activation;
pub mod bytes;
pub mod catalogue;
pub mod compression;
pub mod ctf;
pub mod event;
pub mod flight;
pub mod ftrace_text;
pub mod item;
pub mod kallsyms;
pub(crate) mod layout;
pub mod merge;
pub mod normalize;
pub mod perf_data;
pub mod ring_page;
pub mod source;
mod strings;
pub mod syscall_names;
pub mod together;
pub mod trace_dat;
pub mod tracepoint_format;
pub mod user_event;
pub mod user_ring;
pub mod value;
pub mod window;
