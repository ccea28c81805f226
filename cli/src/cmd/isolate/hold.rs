//! `lathunt isolate run`: isolates while a command runs, or until a signal; newcomers are moved away.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use lathunt_host::isolate::tenant::{self, IsolatedProgram};
use lathunt_host::isolate::Isolation;
use lathunt_host::{knob, signals};

use super::{required, show, start, Optional};

/// Interval of scans for newcomers.
const SCAN: Duration = Duration::from_millis(500);
/// How long a command may take to end after a signal.
const GRACE: Duration = Duration::from_secs(5);

pub(super) fn run(what: &Optional, command: &[OsString]) -> Result<ExitCode> {
    signals::install()?;
    let common = &what.more.common;
    let stays = knob::left(&common.directory_in_use()).is_ok_and(|left| left.kept && !left.booted_since);
    let mut isolation = match (&what.cpus, stays) {
        (None, true) => Isolation::resume(&common.directory_in_use())?,
        (cpus, _) => start(&what.more.request(required(cpus.as_ref())?), common, true)?,
    };
    let talk = !common.quiet;
    if talk {
        eprint!("{}", show::applied(&isolation));
    }
    let ended = follow(&mut isolation, command, talk);
    let drifted = std::mem::take(&mut isolation.drifted);
    let code = match stays {
        true => {
            isolation.keep()?;
            ended?
        }
        false => {
            let restored = isolation.restore();
            let ended = ended?;
            let restored = restored?;
            if talk || show::failed(&restored) > 0 {
                eprint!("{}", show::restored(&restored, common.quiet));
            }
            ended
        }
    };
    drifted
        .iter()
        .filter(|_| talk)
        .for_each(|line| eprintln!("left alone, changed by somebody else: {line}"));
    Ok(ExitCode::from(code))
}

/// Runs until the command ends, or without one until a signal.
fn follow(isolation: &mut Isolation, command: &[OsString], talk: bool) -> Result<u8> {
    let mut tenant = match command {
        [] => None,
        command => {
            Some(IsolatedProgram::start(command, &isolation.plan.cpus, isolation.cgroup().as_deref())?)
        }
    };
    if tenant.is_none() && talk {
        eprintln!("Isolated until Ctrl-C or another signal.");
    }
    let mut scanned = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = tenant.as_mut().map(IsolatedProgram::ended).transpose()?.flatten() {
            return Ok(tenant::exit_code(status));
        }
        match (signals::stop_requested(), &mut tenant, asked) {
            (Some(_), None, _) => return Ok(0),
            (Some(signal), Some(tenant), None) => {
                tenant.pass_on(signal);
                asked = Some(Instant::now());
            }
            (Some(signal), Some(tenant), Some(since)) if since.elapsed() > GRACE => {
                eprintln!("the command did not end {} s after signal {signal}: killed", GRACE.as_secs());
                tenant.kill();
                return Ok(128 + 9);
            }
            _ => {}
        }
        if scanned.elapsed() > SCAN && asked.is_none() {
            let moved = isolation.turn(&tenant::descendants())?;
            if talk && moved.interrupts + moved.threads > 0 {
                eprintln!("moved away: {} new threads, {} new interrupts", moved.threads, moved.interrupts);
            }
            scanned = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
