//! Outcomes of the stimuli of a series.

use serde::{Deserialize, Serialize};

/// Stimuli and answers of a series of round trips, or releases and runs of a series of preemptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Stimuli that were sent.
    pub sent: u64,
    /// Stimuli with an answer; each has a sample.
    pub answered: u64,
    /// Answers after the deadline, or without a deadline after the next stimulus was due; includes answers to abandoned
    /// stimuli.
    pub late: u64,
    /// Stimuli without an answer: `sent` − `answered`.
    pub lost: u64,
    /// Repeated answers to a stimulus.
    pub duplicated: u64,
    /// First answers that came after the answer to a later stimulus; in a series of preemptions, releases after which
    /// the lower-priority thread continued before the higher one had finished.
    pub out_of_order: u64,
    /// Invalid messages: wrong checksum, wrong length, garbage between messages; on a GPIO line, edges that the kernel
    /// dropped.
    pub damaged: u64,
    /// Valid messages of another session, of a third party, or for stimuli never sent.
    #[serde(default)]
    pub foreign: u64,
}

impl Counts {
    /// Adds those of another measurement.
    pub fn add(&mut self, other: &Counts) {
        for (into, from) in [
            (&mut self.sent, other.sent),
            (&mut self.answered, other.answered),
            (&mut self.late, other.late),
            (&mut self.lost, other.lost),
            (&mut self.duplicated, other.duplicated),
            (&mut self.out_of_order, other.out_of_order),
            (&mut self.damaged, other.damaged),
            (&mut self.foreign, other.foreign),
        ] {
            *into = into.saturating_add(from);
        }
    }
}
