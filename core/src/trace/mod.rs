//! Recorded kernel events as one normalized stream, whatever recorded them.
//!
//! One format a file: [`flight`] is the recorder's own ring. Decoders take bytes and give [`event::Event`]s plus
//! losses as values; damaged input is never an abort.

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
pub mod syscall_names;
pub mod together;
pub mod trace_dat;
pub mod tracepoint_format;
pub mod user_event;
pub mod user_ring;
pub mod value;
pub mod window;
