//! Session data of one end, to join the runs of both ends.

use serde::{Deserialize, Serialize};

use crate::time::{Mono, Ns};

/// Which end wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// `lathunt box`.
    Box,
    /// `lathunt respond`.
    Responder,
}

/// A session at one end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionMark {
    /// Its random key, 16 hexadecimal digits.
    pub key: String,
    /// Which end this is.
    pub end: End,
    /// The worst stimuli, worst first.
    pub worst: Vec<Known>,
    /// All stimuli are in `worst`; otherwise no other stimulus took longer than its last.
    pub all_kept: bool,
}

/// A stimulus at this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Known {
    /// Number of the stimulus, from 1.
    pub sequence: u64,
    /// Its start on this end's clock, which is that of the worst case in `peaks`.
    pub begin: Mono,
    /// Its duration at this end.
    pub total_ns: Ns,
    /// When the responder received it, on the responder's clock; identical at both ends.
    pub received: Mono,
}

/// A key as in files.
#[must_use]
pub fn key_text(key: u64) -> String {
    format!("{key:016x}")
}
