//! Boots the guests, again where one hung, and unpacks what they sent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use lathunt_host::testing::may_run;

use crate::guest::Guest;
use crate::GUESTS;

/// How often a guest is tried. Each goes on where the last one ended. QEMU 7.2 with two CPUs hangs now and then when the
/// kernel patches its code, as it does whenever a program is attached to a tracepoint: one of its CPUs then takes the
/// breakpoint that the kernel puts there meanwhile (`text_poke_bp`) for ever, also when the code has long been whole again.
const BOOTS: usize = 6;

/// Why there are no results.
enum NoGuest {
    /// Something is missing on this machine.
    Missing(String),
    /// It was tried and went wrong.
    Failed(String),
}

/// What one scenario left behind.
pub struct Outcome {
    directory: PathBuf,
}

impl Outcome {
    /// The results of `scenario`; `None` when the test called `test` is skipped because the lab cannot run here.
    ///
    /// # Panics
    /// When the guest did not come up, or the scenario did not end with 0; shows what it said.
    pub fn of(scenario: &str, test: &str) -> Option<Outcome> {
        static RESULTS: OnceLock<Result<PathBuf, NoGuest>> = OnceLock::new();
        match RESULTS.get_or_init(boot) {
            Err(NoGuest::Missing(reason)) => {
                let ran = may_run(test, Some(reason));
                assert!(!ran, "a reason was given");
                None
            }
            Err(NoGuest::Failed(what)) => panic!("{what}"),
            Ok(results) => {
                let outcome = Outcome { directory: results.join(scenario) };
                let guest = Guest::of(scenario).unwrap_or_else(|| panic!("no guest runs {scenario}"));
                assert!(
                    outcome.directory.join("status").exists(),
                    "nothing came of scenario {scenario}:\n{}",
                    tail(&guest.ports(results.parent().unwrap_or(results)).console)
                );
                let status = outcome.text("status");
                assert_eq!(status.trim(), "0", "scenario {scenario} failed:\n{}", outcome.text("stderr"));
                Some(outcome)
            }
        }
    }

    /// The same for a scenario that needs `commands`: skipped where the binary does not have them (yet).
    pub fn with(commands: &[&str], scenario: &str, test: &str) -> Option<Outcome> {
        let there = Outcome::of("kernel", test)?.text("commands");
        let absent = commands.iter().find(|&&command| !there.lines().any(|line| line == command));
        let reason = absent.map(|command| format!("this lathunt has no command '{command}'"));
        if may_run(test, reason.as_deref()) {
            Outcome::of(scenario, test)
        } else {
            None
        }
    }

    /// A file that the scenario wrote.
    pub fn text(&self, file: &str) -> String {
        String::from_utf8_lossy(&self.bytes(file)).into_owned()
    }

    /// The same as it is.
    pub fn bytes(&self, file: &str) -> Vec<u8> {
        let path = self.directory.join(file);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

fn boot() -> Result<PathBuf, NoGuest> {
    let directory = prepared()?;
    let results = directory.join("results");
    let _ = fs::remove_dir_all(&results); // left over from an earlier run
    fs::create_dir_all(&results).map_err(|error| failed("create", &results, &error))?;
    // What came whole is judged also when the rest did not come.
    for guest in GUESTS {
        for _ in 0..BOOTS {
            let is_missing = |name: &&str| !results.join(name).join("status").exists();
            let missing: Vec<&str> = guest.scenarios.iter().copied().filter(is_missing).collect();
            if missing.is_empty() {
                break;
            }
            let end =
                guest.run(&directory, &missing).map_err(|error| failed("run", Path::new("qemu"), &error))?;
            let unpacked = unpack(&guest.ports(&directory).sent, &results)?;
            eprintln!("the guest {} for {}: {end} {unpacked}", guest.name, missing.join(", "));
        }
    }
    Ok(results)
}

/// Several tars one after the other; the check sums of gzip show whether the serial line lost anything. Says what tar
/// says of it.
fn unpack(sent: &Path, results: &Path) -> Result<String, NoGuest> {
    let unpacked = Command::new("tar")
        .args(["--extract", "--gzip", "--ignore-zeros", "--file"])
        .arg(sent)
        .arg("--directory")
        .arg(results)
        .output()
        .map_err(|error| failed("unpack", sent, &error))?;
    Ok(String::from_utf8_lossy(&unpacked.stderr).into_owned())
}

/// The directory with kernel and initrd: `LATHUNT_LAB` when it was prepared before, else `lab/prepare` makes it.
fn prepared() -> Result<PathBuf, NoGuest> {
    if let Some(directory) = std::env::var_os("LATHUNT_LAB") {
        return Ok(directory.into());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/prepare");
    let output = Command::new(&script).output().map_err(|error| failed("run", &script, &error))?;
    let (said, talk) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Ok(said.lines().last().unwrap_or_default().into()),
        Some(77) => {
            Err(NoGuest::Missing(talk.lines().last().unwrap_or("lab/prepare gave no reason").to_owned()))
        }
        _ => Err(NoGuest::Failed(format!("lab/prepare failed:\n{talk}"))),
    }
}

fn failed(doing: &str, what: &Path, error: &std::io::Error) -> NoGuest {
    NoGuest::Failed(format!("cannot {doing} {}: {error}", what.display()))
}

/// The end of the console, for a failure message; all of it stays in target/lab.
fn tail(console: &Path) -> String {
    let text = String::from_utf8_lossy(&fs::read(console).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    format!("{}:\n{}", console.display(), lines[lines.len().saturating_sub(60)..].join("\n"))
}
