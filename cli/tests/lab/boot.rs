//! Boots the guest, within a time limit, and unpacks what it sent.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lathunt_host::testing::may_run;

/// Scenarios in their order; each is `lab/scenarios/NAME.sh`.
const SCENARIOS: &[&str] =
    &["kernel", "hunt", "matrix", "beside", "record", "monitor", "check", "hwlat", "isolate"];

/// Longest life of a guest: far more than it takes, for a host that has other work.
const LIMIT: Duration = Duration::from_secs(300);

/// Longest without a sign of life: one each second, once it is up.
const SILENCE: Duration = Duration::from_secs(15);

/// Guests that are tried. Each goes on where the last one ended. QEMU 7.2 hangs now and then when the kernel patches its
/// code, as it does whenever a program is attached to a tracepoint: one of its CPUs then takes the breakpoint that the
/// kernel puts there meanwhile (`text_poke_bp`) for ever, also when the code has long been whole again.
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
        static GUEST: OnceLock<Result<PathBuf, NoGuest>> = OnceLock::new();
        match GUEST.get_or_init(boot) {
            Err(NoGuest::Missing(reason)) => {
                let ran = may_run(test, Some(reason));
                assert!(!ran, "a reason was given");
                None
            }
            Err(NoGuest::Failed(what)) => panic!("{what}"),
            Ok(results) => {
                let outcome = Outcome { directory: results.join(scenario) };
                assert!(
                    outcome.directory.join("status").exists(),
                    "nothing came of scenario {scenario}:\n{}",
                    tail(&results.with_file_name("console.log"))
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
        let path = self.directory.join(file);
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn boot() -> Result<PathBuf, NoGuest> {
    let directory = prepared()?;
    let results = directory.join("results");
    let _ = fs::remove_dir_all(&results); // left over from an earlier run
    fs::create_dir_all(&results).map_err(|error| failed("create", &results, &error))?;
    let mut ends = Vec::new();
    for _ in 0..BOOTS {
        let missing: Vec<&str> =
            SCENARIOS.iter().copied().filter(|name| !results.join(name).join("status").exists()).collect();
        if missing.is_empty() {
            break;
        }
        let end = one_boot(&directory, &results, &missing)?;
        eprintln!("the guest for {}: {end}", missing.join(", "));
        ends.push(end);
    }
    // What came whole is judged also when the rest did not come.
    if results.join(SCENARIOS[0]).join("status").exists() {
        return Ok(results);
    }
    let ends = ends.join("\n");
    Err(NoGuest::Failed(format!(
        "the lab's guest sent nothing: {ends}\n{}",
        tail(&directory.join("console.log"))
    )))
}

/// Boots once, for `scenarios`, unpacks what came, and says how it ended.
fn one_boot(directory: &Path, results: &Path, scenarios: &[&str]) -> Result<String, NoGuest> {
    let [console, sent, alive] = ["console.log", "results.tgz", "alive"].map(|name| directory.join(name));
    for old in [&console, &sent, &alive] {
        let _ = fs::remove_file(old); // perhaps another user's
    }
    let end = run_guest(directory, [&console, &sent, &alive], scenarios)?;
    // Several tars one after the other; the check sums of gzip show whether the serial line lost anything.
    let unpacked = Command::new("tar")
        .args(["--extract", "--gzip", "--ignore-zeros", "--file"])
        .arg(&sent)
        .arg("--directory")
        .arg(results)
        .output()
        .map_err(|error| failed("unpack", &sent, &error))?;
    Ok(format!("{end} {}", String::from_utf8_lossy(&unpacked.stderr)))
}

/// Runs QEMU with its serial `ports` going to those files, and says how that ended.
fn run_guest(directory: &Path, ports: [&Path; 3], scenarios: &[&str]) -> Result<String, NoGuest> {
    // noirqdebug: with the interrupt of the serial port in a thread, the kernel takes the port's interrupts for
    // spurious ones after some 100 KB and turns them off. no_timer_check: at its start the kernel waits a moment for the
    // timer, which a busy host's emulator does not give in time, and panics.
    let line = format!(
        "console=ttyS0 quiet panic=-1 tsc=reliable clocksource=tsc noirqdebug no_timer_check lab.run={}",
        scenarios.join(",")
    );
    let mut guest = Command::new("qemu-system-x86_64")
        .args([
            "-accel",
            "tcg",
            "-smp",
            "2",
            "-m",
            "1G",
            "-no-reboot",
            "-display",
            "none",
            "-monitor",
            "none",
        ])
        .args(["-net", "none", "-append", &line])
        .arg("-kernel")
        .arg(directory.join("vmlinuz"))
        .arg("-initrd")
        .arg(directory.join("initrd"))
        .args(ports.iter().flat_map(|port| ["-serial".to_owned(), format!("file:{}", port.display())]))
        .stdin(Stdio::null())
        .spawn()
        .map_err(|error| failed("start", Path::new("qemu-system-x86_64"), &error))?;
    let [console, _, alive] = ports;
    let (begin, mut frozen) = (Instant::now(), 0);
    let mut last_sign = (0, begin);
    loop {
        crate::freeze::when_asked(guest.id(), console, &mut frozen);
        let over = guest.try_wait().map_err(|error| failed("wait for", Path::new("qemu"), &error))?;
        if let Some(status) = over {
            return Ok(format!("it lived {:.1} s, {status}", begin.elapsed().as_secs_f64()));
        }
        let signs = alive.metadata().map_or(0, |file| file.len());
        if signs != last_sign.0 {
            last_sign = (signs, Instant::now());
        }
        let hangs = signs > 0 && last_sign.1.elapsed() > SILENCE;
        if hangs || begin.elapsed() > LIMIT {
            let _ = guest.kill();
            let _ = guest.wait();
            let why = if hangs { "it hung, and" } else { "it" };
            return Ok(format!("{why} was killed after {:.1} s", begin.elapsed().as_secs_f64()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
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
