//! What one end knows of a session: what the runs of both ends are joined by.

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

/// A session, as one end saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionMark {
    /// Its random key, 16 hexadecimal digits.
    pub key: String,
    /// Which end this is.
    pub end: End,
    /// The worst by their numbers, the worst first.
    pub worst: Vec<Known>,
    /// All are in `worst`; else none that is not there took longer than the last of it.
    pub all_kept: bool,
}

/// A stimulus that this end knows by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Known {
    /// Number of the stimulus, from 1.
    pub sequence: u64,
    /// From when it counts here, on this end's clock: the worst case in `peaks` that begins then is it.
    pub begin: Mono,
    /// How long it took here.
    pub total_ns: Ns,
    /// When the responder received it, on the responder's clock: the same at both ends.
    pub received: Mono,
}

/// A key as files have it.
#[must_use]
pub fn key_text(key: u64) -> String {
    format!("{key:016x}")
}
