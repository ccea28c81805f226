//! `lathunt respond`: answers the stimuli of `lathunt box` on the machine under test.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use lathunt_core::latency_box::channel::Channel;
use lathunt_core::latency_box::delay::Distribution;
use lathunt_core::time::{Cpu, Ns};

use super::units::seconds;
use crate::latency_box::respond;

/// Answers the stimuli of `lathunt box`, one box after the other, until Ctrl-C.
///
/// CHANNEL is the same at both ends (see `lathunt box --help`). The answer to a stimulus goes only to the box whose session
/// it is of. With -- COMMAND a program of yours answers: it reads each stimulus (40 bytes) from stdin and writes the same
/// bytes to stdout when its work is done; `cat` is such a program.
#[derive(Args)]
pub struct RespondArgs {
    /// Channels to answer on
    #[arg(value_name = "CHANNEL", required = true)]
    pub channels: Vec<Channel>,
    /// Real-time priority of the answering thread (SCHED_FIFO); 0 answers as an ordinary thread
    #[arg(short, long, default_value_t = 95, value_parser = clap::value_parser!(i32).range(0..=99))]
    pub priority: i32,
    /// CPU of the answering thread [default: wherever the scheduler puts it]
    #[arg(short, long, value_name = "CPU", value_parser = cpu)]
    pub cpu: Option<Cpu>,
    /// Known delay before each answer: 200us, uniform:0us,500us, normal:200us,20us or exponential:100us
    #[arg(long, value_name = "DIST")]
    pub delay: Option<Distribution>,
    /// End after this time
    #[arg(short = 'D', long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Ns>,
    /// Do not lock memory
    #[arg(long)]
    pub no_mlock: bool,
    /// Print the counts as JSON at the end
    #[arg(long)]
    pub json: bool,
    /// Say only what goes wrong
    #[arg(short, long)]
    pub quiet: bool,
    /// A program that answers instead
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
