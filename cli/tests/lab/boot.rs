//! Boots the guests, again where one hung, and unpacks what they sent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use lathunt_host::testing::may_run;

use crate::guest::Guest;
use crate::GUESTS;

/// How often a guest is tried. Each goes on where the last one ended. QEMU 7.2 with two CPUs hangs now and then when the
/// kernel patches its code, as it does whenever a program is attached to a tracepoint: one of its CPUs then takes the
/// breakpoint that the kernel puts there meanwhile (`text_poke_bp`) for ever, also when the code has long been whole again.
const BOOTS: usize = 6;

/// Why there are no results.
#[derive(Clone)]
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
    /// The results of `scenario` in the first guest that runs it; `None` when the test called `test` is skipped because
    /// the lab cannot run here.
    ///
    /// # Panics
    /// When the guest did not come up, or the scenario did not end with 0; shows what it said.
    pub fn of(scenario: &str, test: &str) -> Option<Outcome> {
        let guest = GUESTS.iter().find(|guest| guest.scenarios.contains(&scenario));
        Outcome::on(guest.unwrap_or_else(|| panic!("no guest runs {scenario}")).name, scenario, test)
    }

    /// The same in the guest called `name`.
    ///
    /// # Panics
    /// See [`of`](Outcome::of).
    pub fn on(name: &str, scenario: &str, test: &str) -> Option<Outcome> {
        let guest = GUESTS.iter().find(|guest| guest.name == name);
        let guest = guest.unwrap_or_else(|| panic!("no guest is called {name}"));
        match results_of(guest) {
            Err(NoGuest::Missing(reason)) => {
                let ran = may_run(test, Some(&reason));
                assert!(!ran, "a reason was given");
                None
            }
            Err(NoGuest::Failed(what)) => panic!("{what}"),
            Ok(directory) => {
                let outcome = Outcome { directory: directory.join("results").join(name).join(scenario) };
                assert!(
                    outcome.directory.join("status").exists(),
                    "nothing came of scenario {scenario}:\n{}",
                    tail(&guest.ports(&directory).console)
                );
                let status = outcome.text("status");
                assert_eq!(status.trim(), "0", "scenario {scenario} failed:\n{}", outcome.text("stderr"));
                Some(outcome)
            }
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

/// The lab's directory, in which `results/GUEST` has what came of `guest`: booted at the first call for it, and one after
/// the other, for they would disturb each other.
fn results_of(guest: &'static Guest) -> Result<PathBuf, NoGuest> {
    static BOOTED: Mutex<BTreeMap<&str, Result<PathBuf, NoGuest>>> = Mutex::new(BTreeMap::new());
    let mut booted = BOOTED.lock().unwrap_or_else(PoisonError::into_inner);
    booted.entry(guest.name).or_insert_with(|| boot(guest)).clone()
}

fn boot(guest: &Guest) -> Result<PathBuf, NoGuest> {
    let directory = prepared(guest)?;
    let results = directory.join("results").join(guest.name);
    let _ = fs::remove_dir_all(&results); // left over from an earlier run
    fs::create_dir_all(&results).map_err(|error| failed("create", &results, &error))?;
    // What came whole is judged also when the rest did not come.
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
    Ok(directory)
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

/// The directory with kernel and initrd: `LATHUNT_LAB` when they were prepared before, else `lab/prepare` makes them.
fn prepared(guest: &Guest) -> Result<PathBuf, NoGuest> {
    if let Some(directory) = std::env::var_os("LATHUNT_LAB").map(PathBuf::from)
        && guest.is_in(&directory)
    {
        return Ok(directory);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/prepare");
    let output =
        Command::new(&script).arg(guest.kernel()).output().map_err(|error| failed("run", &script, &error))?;
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
