//! `cyclictest`: this binary under that name. Same options, same output, same exit codes, with our instrument.
//!
//! What to print is `core::cyclictest`; what single samples leave behind is [`tap`]; the order of things is
//! [`session`].

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::process::ExitCode;

use lathunt_core::cyclictest::options;
use lathunt_core::cyclictest::plan;
use lathunt_core::cyclictest::RT_TESTS_VERSION;
use lathunt_host::sched;

use super::cyclic::Attach;
use session::Session;

mod machine;
mod output;
mod session;
mod settings;
mod status_file;
mod summary;
mod tap;
mod usage;

/// What went wrong, as it goes to stderr.
type Failure = String;

/// Runs with the words of the command line, the name of the program first. With `-b`, `watch` is asked for evidence
/// ([`super::cyclic::BreakWatch`]).
pub fn main(words: Vec<OsString>, watch: &mut Attach<'_>) -> ExitCode {
    let words: Vec<Vec<u8>> = words.into_iter().map(OsString::into_vec).collect();
    let (name, rest) = match words.split_first() {
        Some((name, rest)) => (String::from_utf8_lossy(name).into_owned(), rest),
        None => ("cyclictest".to_owned(), &words[..]),
    };
    let options = match options::parse(rest) {
        Ok(options) => options,
        Err(error) => return refuse(&name, &error),
    };
    if options.help {
        let shown = crate::out::print_or_say(&usage::text());
        return if shown { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    for warning in &options.warnings {
        warn(warning);
    }
    let online = machine::online();
    let allowed = sched::affinity().unwrap_or_else(|_| online.clone());
    let plan = match plan::plan(&options, &allowed, &online) {
        Ok(plan) => plan,
        Err(error) => return refuse(&name, &error),
    };
    let command: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
    let mut session = Session::new(options, plan, command.join(" "));
    match session.run(&online, watch) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn warn(text: &str) {
    eprintln!("WARN: {text}");
}

fn refuse(name: &str, error: &str) -> ExitCode {
    eprintln!("{name}: {error}");
    let _ = crate::out::print(&usage::text()); // the error has been told
    ExitCode::FAILURE
}

/// `cyclictest V 2.40`, for version queries.
pub fn version_line() -> String {
    format!("cyclictest V {RT_TESTS_VERSION}\n")
}
