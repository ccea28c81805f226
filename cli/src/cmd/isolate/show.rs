//! Output of `lathunt isolate`.

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::isolate::plan::{self, Request};
use lathunt_core::isolate::survey::Survey;
use lathunt_core::isolate::text::mechanism;
use lathunt_host::isolate::{self, survey, About, Isolation};
use lathunt_host::knob::{self, Kind, Outcome, Restored};
use lathunt_host::tree::LIVE;
use serde::Serialize;

use super::Common;
use crate::out;

/// Refuses a `--keep` that matches nothing: it may be misspelt, and the intended process would be moved. `later`: a name
/// may also be that of a program that starts later.
///
/// # Errors
/// The first that matches nothing.
pub(super) fn known_to_keep(survey: &Survey, request: &Request, later: bool) -> Result<()> {
    for name in &request.keep {
        let alone = std::slice::from_ref(name);
        if survey.threads.iter().any(|thread| plan::is_kept(thread, &survey.threads, alone)) {
            continue;
        }
        match later && name.parse::<u32>().is_err() {
            true => eprintln!(
                "lathunt: --keep {name}: no program of this name runs now; one that starts later is left where it is"
            ),
            false => {
                bail!("cannot keep {name} where it is: no program of this name or process id runs")
            }
        }
    }
    Ok(())
}

/// The changes made, as text.
pub(super) fn applied(isolation: &Isolation) -> String {
    let plan = &isolation.plan;
    let mut text = format!(
        "CPU {} is isolated by {}; everything else is on CPU {}.\n",
        plan.cpus,
        mechanism(plan.mechanism),
        plan.housekeeping
    );
    for note in &plan.mechanism_notes {
        let _ = writeln!(text, "  not by a better way: {note}");
    }
    for stays in &isolation.stays {
        let _ = writeln!(text, "  ! stays: {}: {}", stays.what, stays.why);
    }
    if !plan.boot.is_empty() {
        let _ = writeln!(text, "  for the rest add to the kernel's command line: {}", plan.boot.join(" "));
    }
    text
}

/// The same as JSON.
pub(super) fn json(isolation: &Isolation) -> impl Serialize {
    serde_json::json!({
        "cpus": isolation.plan.cpus.to_string(),
        "housekeeping": isolation.plan.housekeeping.to_string(),
        "mechanism": isolation.plan.mechanism,
        "mechanism_notes": isolation.plan.mechanism_notes,
        "stays": isolation.stays,
        "boot": isolation.plan.boot,
    })
}

/// An object as JSON, with its format and version.
pub(super) fn versioned(what: &str, object: &impl Serialize) -> Result<String> {
    let mut value = serde_json::to_value(object)?;
    value["format"] = format!("lathunt-isolation-{what}").into();
    value["version"] = 1.into();
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// Number of settings that could not be restored.
pub(super) fn failed(restored: &[Restored]) -> usize {
    restored.iter().filter(|one| one.outcome.is_due()).count()
}

/// Outcome of the changes; unchanged ones are only counted.
pub(super) fn restored(restored: &[Restored], quiet: bool) -> String {
    let mut text = String::new();
    let is_back = |one: &&Restored| {
        matches!(one.outcome, Outcome::PutBack { .. } | Outcome::NotMovedYet { .. } | Outcome::AlreadyBack)
    };
    let back = restored.iter().filter(is_back).count();
    let gone = restored.iter().filter(|one| one.outcome == Outcome::Gone).count();
    let booted = restored.iter().filter(|one| one.outcome == Outcome::BootedSince).count();
    if !quiet {
        let _ = match (restored.len(), booted) {
            (0, _) => writeln!(text, "Nothing to restore."),
            (_, 1..) => writeln!(text, "Nothing to restore: a reboot has undone {booted} changes."),
            _ => writeln!(text, "Restored {back} settings; {gone} objects are gone."),
        };
    }
    let waiting: Vec<_> = restored
        .iter()
        .filter_map(|one| match &one.outcome {
            Outcome::Waits { until } => Some(until),
            _ => None,
        })
        .collect();
    if let Some(until) = waiting.first() {
        let _ = writeln!(
            text,
            "  {} settings wait for {}: `lathunt isolate restore` again",
            waiting.len(),
            until.display()
        );
    }
    for one in restored {
        let told = match one.outcome {
            Outcome::ChangedByOther { .. } | Outcome::Failed { .. } => true,
            Outcome::NotMovedYet { .. } => !quiet,
            _ => false,
        };
        if told {
            let _ = writeln!(text, "  {one}");
        }
    }
    text
}

/// The present isolation.
#[derive(Serialize)]
struct Status {
    isolated: Option<About>,
    /// True after `apply`, false while `run` lasts or after it was killed.
    stays: bool,
    pid: u32,
    /// Whether that process is still running; if not, and nothing stays, it was killed.
    runs: bool,
    changes: usize,
    threads: usize,
    interrupts: usize,
    newcomers: Vec<String>,
    changed_by_others: Vec<String>,
}

pub(super) fn status(common: &Common) -> Result<ExitCode> {
    let left = knob::left(&common.directory_in_use())?;
    let about = (!left.booted_since).then(|| serde_json::from_str::<About>(&left.about).ok()).flatten();
    let about = about.filter(|_| !left.changes.is_empty());
    let of = |kind| left.changes.iter().filter(|change| change.kind == kind).count();
    let status = Status {
        newcomers: about.as_ref().map(newcomers).transpose()?.unwrap_or_default(),
        stays: left.kept,
        pid: left.pid,
        runs: std::path::Path::new(&format!("/proc/{}", left.pid)).exists(),
        changes: left.changes.len(),
        threads: of(Kind::Affinity),
        interrupts: of(Kind::Interrupt),
        changed_by_others: left
            .changes
            .iter()
            .filter(|_| about.is_some())
            .filter_map(|change| {
                let found = knob::changed_by_other(change)?;
                Some(format!("{}: '{found}' instead of '{}'", change.path.display(), change.new))
            })
            .collect(),
        isolated: about,
    };
    let text = match common.json {
        true => versioned("status", &status)?,
        false => status.text(),
    };
    out::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Threads that may run on the isolated CPUs and do not belong there.
fn newcomers(about: &About) -> Result<Vec<String>> {
    let list = |text: &str| text.parse().unwrap_or_default();
    let request = Request {
        cpus: list(&about.cpus),
        housekeeping: list(&about.housekeeping),
        keep: about.keep.clone(),
        ..Request::default()
    };
    let mut survey = survey::read(std::path::Path::new(LIVE))?;
    let tenants = isolate::tenants(&about.mechanism);
    survey.threads.retain(|thread| !tenants.contains(&thread.tid) && !tenants.contains(&thread.pid));
    let Ok(plan) = plan::plan(&survey, &request) else { return Ok(Vec::new()) };
    let moveable = plan.changes.iter().filter(|change| {
        matches!(change.what, plan::What::Interrupt | plan::What::KernelThread | plan::What::UserThread)
    });
    Ok(moveable.map(|change| format!("{} ({}), on CPU {}", change.path, change.of, change.old)).collect())
}

impl Status {
    fn text(&self) -> String {
        let Some(about) = &self.isolated else { return "No CPU is isolated by lathunt.\n".to_owned() };
        let how = isolate::mechanism(&about.mechanism).map_or("", mechanism);
        let until = match (self.stays, self.runs) {
            (true, _) => "until `lathunt isolate restore`".to_owned(),
            (false, true) => format!("while process {} runs", self.pid),
            (false, false) => {
                format!(
                    "left so by process {}, which was killed (`lathunt isolate restore` ends it)",
                    self.pid
                )
            }
        };
        let mut text = format!(
            "CPU {} is isolated since {} by {how}, {until}; everything else is on CPU {}.\n\
             {} changes, {} of them threads and {} interrupts.\n",
            about.cpus, about.since, about.housekeeping, self.changes, self.threads, self.interrupts
        );
        for (title, lines) in
            [("came since", &self.newcomers), ("changed by somebody else", &self.changed_by_others)]
        {
            for line in lines.iter().take(20) {
                let _ = writeln!(text, "  {title}: {line}");
            }
            if lines.len() > 20 {
                let _ = writeln!(text, "  {title}: {} more", lines.len() - 20);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_read_names_its_format() {
        let text = versioned("restored", &serde_json::json!({ "restored": [1] })).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&value["format"], &value["version"]), (&"lathunt-isolation-restored".into(), &1.into()));
        assert_eq!(value["restored"][0], 1);
    }

    #[test]
    fn the_status_tells_one_that_works_from_one_that_was_killed() {
        let about = About {
            cpus: "1".to_owned(),
            housekeeping: "0".to_owned(),
            mechanism: "affinity".to_owned(),
            since: "noon".to_owned(),
            keep: Vec::new(),
        };
        let status = |stays, runs| {
            let (newcomers, changed_by_others) = (Vec::new(), Vec::new());
            let isolated = Some(about.clone());
            Status {
                isolated,
                stays,
                pid: 77,
                runs,
                changes: 1,
                threads: 0,
                interrupts: 1,
                newcomers,
                changed_by_others,
            }
            .text()
        };
        assert!(status(false, true).contains("while process 77 runs"));
        assert!(status(false, false).contains("process 77, which was killed (`lathunt isolate restore`"));
        assert!(status(true, false).contains("until `lathunt isolate restore`"));
    }
}
