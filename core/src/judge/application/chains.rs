//! Chains of threads (`--chain`): their scope, and activations without a known end.

use super::coverage::{longest_response, where_jobs_start};
use crate::application::{Followed, Task};
use crate::numbers::counted;
use crate::time::Ns;

/// Text on the measured response time of a chain.
pub(super) fn end_to_end(task: &Task) -> Option<String> {
    let (chain, max) = (task.chain.as_ref()?, longest_response(task));
    let cut_off = match chain.cut_off {
        0 => String::new(),
        n => format!("; {n} under way when the recording began or ended are not in it"),
    };
    Some(format!(
        "{}: {} {} followed by wake-ups from the first release to the last end, {max} at most{cut_off}",
        task.thread.comm,
        counted(task.activations, "activation"),
        if task.activations == 1 { "was" } else { "were" }
    ))
}

/// Doubt on activations of a chain without a known end.
pub(super) fn not_followed(task: &Task) -> Option<String> {
    let (chain, name) = (task.chain.as_ref()?, &task.thread.comm);
    let names: Vec<&str> = name.split('>').collect();
    if task.activations == 0 && chain.broken + chain.queued == 0 {
        return Some(format!("{name}: no activation of '{}' was followed from end to end", names[0]));
    }
    let (nth, _) = chain.broken_before.iter().enumerate().find(|&(_, &count)| count > 0)?;
    let (from, to) = (names.get(nth)?, names.get(nth + 1)?);
    Some(format!(
        "{name}: {} of {} activations of '{}' were not followed to the end of '{}': no wake-up of '{to}' by '{from}' shows \
         the link. What '{to}' takes without waiting for it is not seen",
        chain.broken,
        chain.broken + chain.queued + task.activations,
        names[0],
        names.last()?
    ))
}

/// Doubt on activations of a chain that a stage took without a wait.
pub(super) fn queued(task: &Task) -> Option<String> {
    let (chain, name) = (task.chain.as_ref().filter(|chain| chain.queued > 0)?, &task.thread.comm);
    let most = chain.queued_at_most_ns?;
    Some(format!(
        "{name}: {} of {} activations queued at a thread that was still at work, or shared it with one that did: it took the next \
         one without a wake-up, so their own ends are not known. They took up to {most}",
        chain.queued,
        chain.broken + chain.queued + task.activations
    ))
}

/// Doubts on where the jobs of its threads start: one that is longer than `deadline` makes the chain late. `all`: the threads of
/// the run.
pub(super) fn of_stages(task: &Task, all: &[Task], deadline: Ns) -> Vec<String> {
    let Some(chain) = &task.chain else { return Vec::new() };
    let is_stage = |one: &&Task| !one.is_chosen && chain.threads.contains(&one.thread.tid);
    all.iter().filter(is_stage).flat_map(|one| where_jobs_start(one, deadline)).collect()
}

/// Whether a completely followed chain covers `task` and all threads that release it.
pub(super) fn is_in_chain(task: &Task, tasks: &[Task]) -> bool {
    let mut whole =
        tasks.iter().filter_map(|task| task.chain.as_ref()).filter(|chain| chain.broken + chain.queued == 0);
    let by_chain = |chain: &Followed| {
        chain.threads.contains(&task.thread.tid)
            && task.released_by.iter().all(|tid| chain.threads.contains(tid))
    };
    whole.any(by_chain)
}
