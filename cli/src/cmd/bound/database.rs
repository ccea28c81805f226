//! The windows of a monitor's database, instead of runs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{anyhow, bail, Result};
use lathunt_core::bound::of_windows::Windows;
use lathunt_core::comm::Comm;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::monitor::event::Kind;
use lathunt_core::monitor::packed::Damaged;
use lathunt_core::monitor::window::{Whose, QUANTITIES};
use lathunt_core::series::Quantity;
use lathunt_host::monitor::clocks;
use lathunt_host::monitor::store::Reader;

use super::{named, request, Analysed, BoundArgs};

/// Reads the windows and analyses those of one quantity.
pub(super) fn of_database(path: &Path, args: &BoundArgs) -> Result<Analysed> {
    let asked = args.quantity.as_deref().map(named).transpose()?;
    if let Some(other) = asked.filter(|quantity| !QUANTITIES.contains(quantity)) {
        let names = QUANTITIES.map(Quantity::name).join(", ");
        bail!("--quantity {}: a monitor does not record it; available are {names}", other.name());
    }
    let cpus = match &args.cpus {
        Some(list) => Some(list.parse::<CpuSet>().map_err(|error| anyhow!("-c {list}: {error}"))?),
        None => None,
    };
    let task = args.task.as_deref().map(Comm::cut);
    let wanted = |whose: Whose| match (whose, task) {
        (Whose::Task(name), Some(task)) => name == task,
        (Whose::Cpu(cpu), None) => cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu)),
        _ => false,
    };
    let reader = Reader::open(path)?;
    let from = clocks::wall().minus(args.since);
    let mut found: BTreeMap<Quantity, Windows> = BTreeMap::new();
    let mut damaged: Option<(String, Damaged)> = None;
    reader.each_row(from, None, |row| {
        let quantity = row.key.quantity;
        if damaged.is_some() || !wanted(row.key.whose) || asked.is_some_and(|asked| asked != quantity) {
            return;
        }
        if let Err(damage) = found.entry(quantity).or_default().add(&row) {
            damaged = Some((format!("{} in the window that ended at {}", row.key, row.end), damage));
        }
    })?;
    let shown = path.display();
    if let Some((which, damage)) = damaged {
        bail!("{shown}: the histogram of {which}: {damage}: it cannot be added to the others; select windows after it with --since");
    }
    let of_whom = match (task, &cpus) {
        (Some(task), _) => format!("the tasks called {}", task.text()),
        (None, Some(cpus)) => format!("CPUs {cpus}"),
        (None, None) => "all CPUs".to_owned(),
    };
    // The quantity of a verdict: for a task woken by a timer, latency counts from the expiry.
    let sampled = |quantity: &Quantity| found.get(quantity).is_some_and(|windows| windows.samples() > 0);
    let Some((quantity, windows)) =
        QUANTITIES.into_iter().find(sampled).and_then(|quantity| Some((quantity, found.remove(&quantity)?)))
    else {
        let what = asked.map_or_else(String::new, |quantity| format!(" of {}", quantity.name()));
        bail!("{shown}: no sample{what} of {of_whom} since {from}; lathunt history --database {shown} lists the recorded series");
    };
    let events = reader.events(from)?;
    let unread = events.iter().any(|event| event.kind == Kind::ActivationsLost);
    let incomplete = (task.is_some() && unread).then_some(
        "activations of tasks were lost, and it is not known whose (activations_lost in lathunt history); the series of CPUs are complete",
    );
    let about = format!("{} of {of_whom} ({shown})", quantity.name());
    let mut request = request(args);
    request.threshold = args.threshold.map(|us| us * 1e3);
    let (answer, input) = windows.answer(&about, incomplete, &request)?;
    Ok(Analysed { answer, basis: Some((input, request)) })
}
