//! `lathunt munin`: the plug-in for munin-node, fed by the database of `lathunt monitor`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use lathunt_core::monitor::history::History;
use lathunt_core::monitor::munin::{self, Node};
use lathunt_core::monitor::window::UnixMs;
use lathunt_host::monitor::clocks;
use lathunt_host::monitor::store::Reader;
use lathunt_host::restrict::{to_reading, Programs};

use super::monitor::DATABASE;
use crate::out;

/// Variable with the database in munin-node's configuration of the plug-in.
const VARIABLE: &str = "LATHUNT_DATABASE";

/// Report the maxima recorded by `lathunt monitor` as a Munin plug-in.
///
/// munin-node calls it with `config` or without an argument; multigraph and dirtyconfig are supported. To install it, link the
/// script munin/lathunt from the documentation directory of lathunt (share/doc/lathunt) into /etc/munin/plugins. The database
/// is that of the monitor, or the one named by `env.LATHUNT_DATABASE` in the configuration of the plug-in.
#[derive(Debug, clap::Args)]
pub struct MuninArgs {
    /// Request of munin-node [default: fetch]
    #[arg(value_enum)]
    question: Option<Question>,
    /// Database of the monitor [default: LATHUNT_DATABASE from the environment, else /var/lib/lathunt/monitor.sqlite]
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Question {
    /// The values
    Fetch,
    /// Titles and fields
    Config,
    /// Whether the plug-in can run here
    Autoconf,
}

/// Answers.
///
/// # Errors
/// One line about the database that cannot be read.
pub fn run(args: MuninArgs) -> Result<ExitCode> {
    let capable = |name: &str| std::env::var(name).is_ok_and(|value| value == "1");
    let node =
        Node { multigraph: capable("MUNIN_CAP_MULTIGRAPH"), dirtyconfig: capable("MUNIN_CAP_DIRTYCONFIG") };
    let now = clocks::wall();
    let named = args
        .database
        .or_else(|| std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from));
    let database = named.unwrap_or_else(|| PathBuf::from(DATABASE));
    to_reading(&[&database], Programs::None)?; // SQLite's index of a database being written is beside it
    let history = read(&database, now);
    let text = match (args.question, history) {
        (Some(Question::Autoconf), Ok(_)) => "yes\n".to_owned(),
        (Some(Question::Autoconf), Err(error)) => format!("no ({error:#})\n"),
        (Some(Question::Config), history) => munin::config(&history?, node, now),
        (Some(Question::Fetch) | None, history) => munin::fetch(&history?, node, now),
    };
    out::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn read(database: &Path, now: UnixMs) -> Result<History> {
    Ok(Reader::open(database)?.history(now.minus(munin::REACH))?)
}
