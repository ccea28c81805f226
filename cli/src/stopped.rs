//! A measurement that was stopped before its time, by the user or the system: the same wording in every command.

use lathunt_core::run::Run;
use lathunt_core::time::Ns;
use lathunt_host::signals;

/// Marks `run` as stopped if a signal ended it before `planned` was over. Without a planned time, the signal is the
/// normal end.
pub fn mark(run: &mut Run, took: Ns, planned: Option<Ns>) {
    let early = planned.filter(|&planned| took < planned);
    early.and_then(|planned| by_signal(took, &length(planned))).into_iter().for_each(|why| run.stopped(why));
}

/// `stopped after 3.3 s of 20 s (SIGINT)`; `None`: there was no signal.
#[must_use]
pub fn by_signal(took: Ns, planned: &str) -> Option<String> {
    let signal = signals::stop_requested()?;
    Some(format!("{} ({})", after(took, planned), signals::name(signal)))
}

/// Of what a signal or the key `q` ended before its time.
#[must_use]
pub fn by_user(took: Ns, planned: Ns) -> Option<String> {
    let planned = length(planned);
    by_signal(took, &planned).or_else(|| Some(format!("{} (q)", after(took, &planned))))
}

/// `stopped after 3.3 s of 20 s`.
#[must_use]
pub fn after(took: Ns, planned: &str) -> String {
    format!("stopped after {:.1} s of {planned}", took.as_secs())
}

/// `20 s`, `1.5 s`.
#[must_use]
pub fn length(planned: Ns) -> String {
    let seconds = (planned.as_secs() * 1e3).round() / 1e3;
    format!("{seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_times_are_said() {
        assert_eq!(after(Ns::from_ms(3_312), &length(Ns(20_000_000_000))), "stopped after 3.3 s of 20 s");
        assert_eq!(length(Ns::from_ms(1_500)), "1.5 s");
    }
}
