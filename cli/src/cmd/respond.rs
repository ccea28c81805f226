//! `lathunt respond`: answers the stimuli of `lathunt box` on the machine under test.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lathunt_core::latency_box::channel::Channel;
use lathunt_core::latency_box::delay::Distribution;
use lathunt_core::latency_box::reception::Reception;
use lathunt_core::time::{Cpu, Ns};

use super::latency_box::respond;
use super::units::{microseconds, seconds};

/// Answer the stimuli of `lathunt box`, one box after the other, until Ctrl-C.
///
/// CHANNEL is the same at both ends (see `lathunt box --help`). An answer is sent only to the box of the session that the
/// stimulus belongs to. With -- COMMAND, another program answers: it reads each stimulus (40 bytes) from stdin and writes the
/// same bytes to stdout when its work is done; `cat` is such a program.
///
/// With --latmon, a box running Zephyr's or EVL's latmon measures: it sends pulses on CHANNEL and its results over TCP. The
/// exit status is then that of `lathunt box`.
#[derive(Args)]
pub struct RespondArgs {
    /// Channels to answer on
    #[arg(value_name = "CHANNEL", required = true)]
    pub channels: Vec<Channel>,
    /// Real-time priority of the answering thread (SCHED_FIFO); 0: ordinary thread
    #[arg(short, long, default_value_t = 95, value_parser = clap::value_parser!(i32).range(0..=99))]
    pub priority: i32,
    /// CPU of the answering thread [default: any CPU]
    #[arg(short, long, value_name = "CPU", value_parser = cpu)]
    pub cpu: Option<Cpu>,
    /// Method of waiting for stimuli: blocking, sigio (signals), epoll, busy-poll, io-uring, xdp (AF_XDP, for udp; as root)
    #[arg(long, value_name = "METHOD", default_value_t)]
    pub receive: Reception,
    /// Known delay before each answer: 200us, uniform:0us,500us, normal:200us,20us or exponential:100us
    #[arg(long, value_name = "DIST")]
    pub delay: Option<Distribution>,
    /// Time after which to stop [default: until Ctrl-C]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Ns>,
    /// Act as latmus: connect to latmon on this host (TCP port 2306), or wait for the address that latmon broadcasts, and let
    /// it measure
    #[arg(long, value_name = "HOST[:PORT]|broadcast[:PORT]")]
    pub latmon: Option<String>,
    /// With --latmon: period of the pulses, 1us to 1s [default: 1ms]
    #[arg(short, long, value_name = "TIME", requires = "latmon", value_parser = microseconds)]
    pub interval: Option<Ns>,
    /// With --latmon: number of histogram cells of 1 µs, 1 to 1000
    #[arg(long, value_name = "N", requires = "latmon", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub cells: u32,
    /// With --latmon: latency that must not be exceeded (else exit status 2); bare numbers are µs
    #[arg(long, value_name = "TIME", requires = "latmon", value_parser = microseconds)]
    pub deadline: Option<Ns>,
    /// With --latmon: print one line per record and a summary in the format of latmus (RTT, RTH, RTD, RTS) instead of the table
    #[arg(long, value_name = "FORMAT", requires = "latmon", value_parser = ["latmus"])]
    pub format: Option<String>,
    /// With --latmon: write the histogram as a plot file of latmus; an existing file is not overwritten
    #[arg(long, value_name = "FILE", requires = "latmon")]
    pub plot: Option<PathBuf>,
    /// Explain the slowest answers, from the waking of the answering thread until the answer is sent, from kernel events (needs
    /// root and -o)
    #[arg(long, requires = "output", conflicts_with = "latmon")]
    pub record: bool,
    /// With -o: number of slowest answers to keep, with their stimulus numbers, for `lathunt merge --pair`
    #[arg(long, value_name = "K", requires = "output", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub worst: u16,
    /// Write the run, at the end, to run.lathunt.json in this directory, which is created if needed, or to this file if its
    /// name ends in .json
    #[arg(short, long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Do not lock memory
    #[arg(long)]
    pub no_mlock: bool,
    /// Print the counts (with --latmon: the run) as JSON at the end
    #[arg(long)]
    pub json: bool,
    /// Print only errors and warnings
    #[arg(short, long)]
    pub quiet: bool,
    /// Program that answers instead
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Answers.
///
/// # Errors
/// One line: a channel that is absent, busy or refused.
pub fn run(args: RespondArgs) -> Result<ExitCode> {
    respond::run(&args)
}

fn cpu(text: &str) -> Result<Cpu, String> {
    text.parse().map(Cpu).map_err(|_| format!("'{text}' is not a CPU number"))
}
