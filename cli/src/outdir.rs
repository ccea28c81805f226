//! The directory of a measurement: created before it, saved into every second, completed at the end.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use lathunt_core::report::{blocking, html, tasks, text, worst};
use lathunt_core::run::Run;
use lathunt_core::trace::flight::decode;
use lathunt_host::beneath::{Directory, Readers};
use lathunt_host::privileges::{self, Capability};
use lathunt_host::symbols::Symbols;
use lathunt_host::trusted::sudo_caller;

use crate::own::Kind;

use crate::beside::{FLIGHT_FILE, KALLSYMS_FILE};
use crate::{file, out};

/// Name of the report inside the directory.
pub const REPORT_FILE: &str = "report.html";
/// Files of a measurement. The run comes first: it identifies an earlier one.
const FILES: [file::Left; 4] = [
    (file::RUN_FILE, |kind| *kind == Kind::run()),
    (REPORT_FILE, |kind| *kind == Kind::Page),
    (FLIGHT_FILE, |kind| *kind == Kind::Flight),
    (KALLSYMS_FILE, |kind| *kind == Kind::Symbols),
];

/// Maximum number tried for the directory of a late case.
const MOST_LATE: u32 = 10_000;

/// The output directory.
pub struct Output {
    directory: Directory,
    earlier: Mutex<Before>,
}

/// An earlier run in the directory.
enum Before {
    /// Not renamed yet: this run has no result so far.
    There(file::Earlier),
    /// It is now this file.
    Renamed(PathBuf),
    /// There was none, or the user knows where it is.
    None,
}

impl Output {
    /// Creates `wanted`, or `lathunt-DATE-TIME` after the time `started` (RFC 3339), and checks that it is writable. The first
    /// result sets an existing run aside with its companion files ([`file::Earlier`]).
    ///
    /// # Errors
    /// One line: the directory, and the reason.
    pub fn create(wanted: Option<&Path>, started: Option<&str>) -> anyhow::Result<Output> {
        Output::create_for(wanted, started, &[])
    }

    /// The same for a command that writes further runs beside the main one.
    ///
    /// # Errors
    /// As [`Output::create`].
    pub fn create_for(
        wanted: Option<&Path>,
        started: Option<&str>,
        runs: &[&'static str],
    ) -> anyhow::Result<Output> {
        let directory =
            wanted.map_or_else(|| PathBuf::from(name_of(started.unwrap_or_default())), Path::to_owned);
        let shown = directory.display().to_string();
        let directory = file::directory(&directory, Readers::Umask)
            .with_context(|| format!("cannot create the output directory {shown}"))?;
        directory
            .probe()
            .with_context(|| format!("cannot write into {shown}; name another directory with -o"))?;
        // An earlier run is not lost, and its evidence does not stay beside the new run's.
        let further = runs.iter().map(|name| -> file::Left { (name, |kind| *kind == Kind::run()) });
        let files: Vec<file::Left> = FILES.into_iter().chain(further).collect();
        let earlier = file::earlier(&directory, &files)?.map_or(Before::None, Before::There);
        Ok(Output { directory, earlier: Mutex::new(earlier) })
    }

    /// Sets an earlier run aside, the first time.
    fn begin(&self) -> anyhow::Result<()> {
        let mut before = self.before();
        if let Before::There(earlier) = std::mem::replace(&mut *before, Before::None) {
            *before = Before::Renamed(earlier.set_aside(&self.directory)?);
        }
        Ok(())
    }

    fn before(&self) -> std::sync::MutexGuard<'_, Before> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells once where the earlier run is now; not while a live view is drawn.
    fn tell_of_earlier(&self) {
        let mut before = self.before();
        if let Before::Renamed(old) = &*before {
            eprintln!("lathunt: an earlier run was there: it is now {}", old.display());
            *before = Before::None;
        }
    }

    /// The capability needed to write into it, for root in a directory of the user who called sudo.
    #[must_use]
    pub fn needs(&self) -> Vec<Capability> {
        needs(self.directory.path())
    }

    /// A file inside.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Saves an unfinished run that has samples. A failure does not end the measurement: the final save reports it.
    pub fn save(&self, run: &Run) {
        self.save_as(file::RUN_FILE, run);
    }

    /// The same for one of several runs ([`Output::create_for`]).
    pub fn save_as(&self, name: &str, run: &Run) {
        if run.has_samples() && self.begin().is_ok() {
            let _ = self.directory.replace(OsStr::new(name), run.to_json().as_bytes(), Readers::Umask, false);
        }
    }

    /// Writes one of several runs.
    ///
    /// # Errors
    /// One line: the file, and the reason.
    pub fn put(&self, name: &str, run: &Run) -> anyhow::Result<()> {
        self.begin()?;
        self.tell_of_earlier();
        file::put(&self.directory, name, run.to_json().as_bytes(), Readers::Umask)
    }

    /// Writes a finished run, its report and its flight records; the most important first, in case the disk is full. The
    /// flight records and symbols contain kernel addresses: only this user may read them. A run without a sample does not take
    /// the place of an earlier one.
    ///
    /// # Errors
    /// One line: the file, and the reason.
    pub fn write(&self, run: &Run, flight: &[u8]) -> anyhow::Result<()> {
        if self.keeps_earlier() && !run.has_samples() {
            let place = self.directory.path().display();
            eprintln!("lathunt: no sample was taken; the earlier run in {place} stays");
            return Ok(());
        }
        self.begin()?;
        self.tell_of_earlier();
        let put = |name, bytes: &[u8], readers| file::put(&self.directory, name, bytes, readers);
        put(file::RUN_FILE, run.to_json().as_bytes(), Readers::Umask)?;
        put(REPORT_FILE, html::report(run)?.as_bytes(), Readers::Umask)?;
        if !flight.is_empty() {
            put(FLIGHT_FILE, flight, Readers::Owner)?;
            // Without them the addresses in it mean nothing on another machine, or after the next boot.
            if let Ok(symbols) = Symbols::read() {
                put(KALLSYMS_FILE, used(flight, &symbols).as_bytes(), Readers::Owner)?;
            }
        }
        Ok(())
    }

    /// Whether the files in the directory are those of an earlier run.
    fn keeps_earlier(&self) -> bool {
        matches!(&*self.before(), Before::There(_))
    }

    /// Saves `flight` and the JSON of its late case in a new directory `late-N`; returns its path.
    ///
    /// # Errors
    /// One line: the file, and the reason.
    pub fn keep_late(&self, flight: &[u8], case: &str) -> anyhow::Result<PathBuf> {
        let made = |n: u32| match self.directory.make_below(OsStr::new(&format!("late-{n}")), Readers::Owner)
        {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => None, // of any type
            made => Some(made),
        };
        let made = (1..MOST_LATE).find_map(made).unwrap_or_else(|| Err(ErrorKind::AlreadyExists.into()));
        let directory = made.with_context(|| format!("cannot create {}", self.path("late-N").display()))?;
        let path = directory.path().to_owned();
        file::put(&directory, "case.json", case.as_bytes(), Readers::Owner)?;
        file::put(&directory, FLIGHT_FILE, flight, Readers::Owner)?;
        if let Ok(symbols) = Symbols::read() {
            file::put(&directory, KALLSYMS_FILE, used(flight, &symbols).as_bytes(), Readers::Owner)?;
        }
        Ok(path)
    }

    /// Prints the result: the run file (`json`), only the verdict (`quiet`), or the summary.
    ///
    /// # Errors
    /// If stdout is not writable.
    pub fn print(&self, run: &Run, json: bool, quiet: bool, all: bool) -> anyhow::Result<()> {
        let (report, file) = (self.path(REPORT_FILE), self.path(file::RUN_FILE));
        // Only those that were written.
        let paths = [("report", report), ("run", file)].map(|(what, path)| (what, path.exists(), path));
        let paths = paths.iter().filter(|(_, there, _)| *there && !self.keeps_earlier());
        let paths: Vec<(&str, String)> =
            paths.map(|(what, _, path)| (*what, path.to_string_lossy().into_owned())).collect();
        let paths: Vec<(&str, &str)> = paths.iter().map(|(what, path)| (*what, path.as_str())).collect();
        let screen = out::screen(&paths, all);
        let text = match (json, quiet) {
            (true, _) => run.to_json() + "\n",
            (false, true) => text::verdict(run, &screen),
            (false, false) => {
                let whole = screen.lines == 0;
                let details = tasks::text(run, screen.width, whole)
                    + &worst::text(run, screen.width, whole)
                    + &blocking::text(run, screen.width);
                let summary = text::summary(run, &screen);
                // A terminal shows the last screen; elsewhere reading starts at the beginning.
                match screen.lines {
                    0 => format!("{summary}\n{details}").trim_end().to_owned() + "\n",
                    _ => details + &summary,
                }
            }
        };
        Ok(out::print(&text)?)
    }
}

/// The capabilities needed to write below `directory`, and to give files to the user who called sudo.
#[must_use]
pub fn needs(directory: &Path) -> Vec<Capability> {
    let writes = (!privileges::owns(directory)).then_some(Capability::DacOverride);
    writes.into_iter().chain(sudo_caller().map(|_| Capability::Chown)).collect()
}

/// Lines of a kallsyms for the addresses in flight records only: kilobytes instead of megabytes.
fn used(flight: &[u8], symbols: &Symbols) -> String {
    let mut lines = BTreeMap::new();
    let _ = decode(flight, |address| {
        let name = symbols.name(address)?;
        let (symbol, offset) = name.rsplit_once("+0x")?;
        let begin = address.checked_sub(u64::from_str_radix(offset, 16).ok()?)?;
        lines.insert(begin, symbol.to_owned());
        Some(name)
    });
    lines.iter().fold(String::new(), |mut text, (address, symbol)| {
        let _ = writeln!(text, "{address:016x} t {symbol}");
        text
    })
}

/// `2026-11-21T21:40:05Z` → `lathunt-20261121-214005`.
fn name_of(started: &str) -> String {
    let digits: String = started.chars().filter(char::is_ascii_digit).take(14).collect();
    match digits.split_at_checked(8) {
        Some((date, time)) => format!("lathunt-{date}-{time}"),
        None => "lathunt-run".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use lathunt_core::conditions::Conditions;
    use lathunt_core::histogram::{Histogram, Layout};
    use lathunt_core::series::{Quantity, Series};
    use lathunt_core::time::Ns;

    use super::*;

    #[test]
    fn a_run_without_a_name_is_named_after_its_time() {
        assert_eq!(name_of("2026-11-21T21:40:05+01:00"), "lathunt-20261121-214005");
        assert_eq!(name_of(""), "lathunt-run");
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_refused_before_the_measurement() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        let error =
            Output::create(Some(&file.join("below")), None).err().map(|error| format!("{error:#}")).unwrap();
        assert!(error.contains("cannot create the output directory"), "{error}");
        let output = Output::create(Some(&place.path().join("a/b")), None).unwrap();
        assert_eq!(fs::read_dir(output.directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_earlier_run_and_its_evidence_are_set_aside() {
        let place = tempfile::tempdir().unwrap();
        let flight = "LHFLIGHT\0";
        for (name, content) in
            [(file::RUN_FILE, "{\"format\":\"lathunt-run\"}"), (FLIGHT_FILE, flight), ("notes.txt", "mine")]
        {
            fs::write(place.path().join(name), content).unwrap();
        }
        let ours = || {
            let mut histogram = Histogram::new(Layout::LATENCY);
            histogram.record(Ns(1));
            let series = vec![Series::new(Quantity::Cyclic, None, histogram)];
            Run { series, ..Run::new(Conditions::default()) }
        };
        let output = Output::create(Some(place.path()), None).unwrap();
        // Stopped before the first sample: the earlier result stays in its place.
        output.save(&Run::new(Conditions::default()));
        output.write(&Run::new(Conditions::default()), &[]).unwrap();
        assert_eq!(fs::read_to_string(place.path().join(FLIGHT_FILE)).unwrap(), flight);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
        output.save(&ours());
        fs::remove_file(place.path().join(file::RUN_FILE)).unwrap();
        let mut names: Vec<_> = fs::read_dir(place.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["flight.bin.old", "notes.txt", "run.lathunt.json.old"]);
        assert_eq!(fs::read_to_string(place.path().join("flight.bin.old")).unwrap(), flight);
        // Runs that were cut off do not displace it, and no evidence stays beside a run that it does not belong to.
        for flight in [Some("LHFLIGHT\0second"), None] {
            fs::write(place.path().join(file::RUN_FILE), "{\"format\":\"lathunt-run\",\"complete\":false}")
                .unwrap();
            flight.iter().for_each(|flight| fs::write(place.path().join(FLIGHT_FILE), flight).unwrap());
            Output::create(Some(place.path()), None).unwrap().save(&ours());
            assert_eq!(place.path().join("flight.bin.partial").exists(), flight.is_some());
            assert!(place.path().join("run.lathunt.json.partial").exists());
            assert_eq!(
                fs::read_to_string(place.path().join("run.lathunt.json.old")).unwrap(),
                "{\"format\":\"lathunt-run\"}"
            );
            assert!(place.path().join("flight.bin.old").exists());
        }
        fs::write(place.path().join(REPORT_FILE), "<html>dear to somebody").unwrap();
        let refused = Output::create(Some(place.path()), None).err().map(|error| error.to_string()).unwrap();
        assert!(refused.contains("not written by lathunt"), "{refused}");
    }
}
