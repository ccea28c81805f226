//! `--log DIR`: one file per thread in the columns of rt-app, for scripts that read those.
//!
//! Differences: a line is a job, not a repetition of a phase; `run` is the CPU time of the job; `perf` is 0, because
//! loops are not counted; and `wu_lat` is how late the job started, even if its thread was late already (rt-app has 0
//! there).

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{anyhow, Context, Result};
use lathunt_core::tasks::jobs::Job;
use lathunt_core::tasks::program::{Program, Thread};
use lathunt_core::time::{Mono, Ns};
use lathunt_host::beneath::{Directory, Readers};

use crate::file;

/// Logs of all threads.
pub struct Logs {
    directory: Directory,
    threads: Vec<Log>,
    begin: Mono,
    error: Option<std::io::Error>,
}

struct Log {
    name: OsString,
    file: BufWriter<File>,
    /// A line could not be written.
    is_cut: bool,
    budget: Ns,
    period: Ns,
    /// Its line still needs the start of the next job.
    last: Option<Job>,
}

impl Logs {
    /// Creates the files. Existing files are not touched.
    ///
    /// # Errors
    /// One line: the file that cannot be created.
    pub fn create(path: &Path, program: &Program) -> Result<Logs> {
        let directory = file::directory(path, Readers::Umask)
            .with_context(|| format!("cannot create the directory of the logs, {}", path.display()))?;
        let mut logs = Logs { directory, threads: Vec::new(), begin: Mono(0), error: None };
        for thread in &program.threads {
            logs.add(&thread.name, Some(thread))?;
        }
        Ok(logs)
    }

    fn add(&mut self, name: &str, thread: Option<&Thread>) -> Result<()> {
        // A name in the set may contain a slash.
        let safe: String =
            name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
        let name = OsString::from(format!("rt-app-{safe}-{}.log", self.threads.len()));
        let made = self.directory.create_new(&name, Readers::Umask);
        let shown = self.directory.path().join(&name);
        let made = made.map_err(|error| {
            anyhow!("cannot create {}: {error}; name a directory without logs", shown.display())
        })?;
        let mut file = BufWriter::new(made);
        let heading = ["perf", "run", "period"].map(|name| format!("{name:>8}")).join(" ");
        let times = ["start", "end", "rel_st"].map(|name| format!("{name:>15}")).join(" ");
        let rest = ["slack", "c_duration", "c_period", "wu_lat"].map(|name| format!("{name:>10}")).join(" ");
        writeln!(file, "#idx {heading} {times} {rest}")?;
        self.threads.push(Log {
            name,
            file,
            is_cut: false,
            budget: thread.and_then(|thread| thread.budget).unwrap_or_default(),
            period: thread.and_then(|thread| thread.period).unwrap_or_default(),
            last: None,
        });
        Ok(())
    }

    /// The common start.
    pub fn begins(&mut self, at: Mono) {
        self.begin = at;
    }

    /// Adds a job of a thread. An error is kept for the end.
    pub fn job(&mut self, thread: usize, job: &Job) {
        while self.threads.len() <= thread {
            if let Err(error) = self.add("forked", None) {
                self.error = self.error.take().or(Some(std::io::Error::other(format!("{error:#}"))));
                return;
            }
        }
        let begin = self.begin;
        let Some(log) = self.threads.get_mut(thread) else { return };
        if let Some(before) = log.last.replace(*job) {
            let written = log.line(thread, &before, job.start.unwrap_or(job.end), begin);
            log.is_cut |= written.is_err();
            self.error = self.error.take().or(written.err());
        }
    }

    /// Writes the last lines. A log that is cut off is renamed to `*.partial`, or removed if it is empty.
    ///
    /// # Errors
    /// The first error, with its place.
    pub fn finish(mut self) -> Result<()> {
        let begin = self.begin;
        for (at, log) in self.threads.iter_mut().enumerate() {
            let last = log.last.take().map_or(Ok(()), |job| log.line(at, &job, job.end, begin));
            let written = last.and_then(|()| log.file.flush());
            log.is_cut |= written.is_err();
            self.error = self.error.take().or(written.err());
            if log.is_cut {
                let mut partial = log.name.clone();
                partial.push(".partial");
                let _ = match log.file.get_ref().metadata() {
                    Ok(file) if file.len() == 0 => self.directory.remove(&log.name),
                    _ => self.directory.rename(&log.name, &partial),
                };
            }
        }
        match self.error {
            None => Ok(()),
            Some(error) => {
                Err(file::said(self.directory.path(), &error).context("the logs are incomplete (*.partial)"))
            }
        }
    }
}

impl Log {
    fn line(&mut self, thread: usize, job: &Job, next: Mono, begin: Mono) -> std::io::Result<()> {
        let us = |time: Ns| time.0 / 1_000;
        let start = job.start.unwrap_or(job.release);
        let due = job.release + self.period;
        let slack = (due.0 as i128 - job.end.0 as i128) / 1_000;
        let slack = if self.period == Ns::ZERO { 0 } else { slack };
        writeln!(
            self.file,
            "{thread:>4} {:>8} {:>8} {:>8} {:>15} {:>15} {:>15} {slack:>10} {:>10} {:>10} {:>10}",
            0,
            us(job.execution),
            us(next.since(start)),
            start.0 / 1_000,
            next.max(job.end).0 / 1_000,
            us(start.since(begin)),
            us(self.budget),
            us(self.period),
            us(start.since(job.release))
        )
    }
}
