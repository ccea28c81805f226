//! The error of this crate: what was being done, to what, why it failed, and what the user can do.

use std::fmt;
use std::io;

use crate::limits;

/// `cannot DOING WHAT: SOURCE; HINT` on one line.
#[derive(Debug)]
pub struct Error {
    doing: &'static str,
    what: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    hint: String,
}

/// Result with [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// `cannot doing what`, with the last error of the operating system or library.
    pub fn new(
        doing: &'static str,
        what: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error { doing, what: what.into(), source: Some(source.into()), hint: String::new() }
    }

    /// The same for a refusal by lathunt itself.
    pub fn refused(doing: &'static str, what: impl Into<String>, hint: impl Into<String>) -> Error {
        Error { doing, what: what.into(), source: None, hint: hint.into() }
    }

    /// A complete sentence worded by another layer.
    pub fn stated(sentence: impl Into<String>) -> Error {
        Error { doing: "", what: sentence.into(), source: None, hint: String::new() }
    }

    /// `errno` of the system call that just failed.
    pub fn last_os(doing: &'static str, what: impl Into<String>) -> Error {
        Error::new(doing, what, io::Error::last_os_error())
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.hint = hint.into();
        self
    }

    /// Appends one more fact after the hint.
    #[must_use]
    pub fn and(mut self, more: &str) -> Error {
        let separator = if self.hint.is_empty() { "" } else { "; " };
        self.hint.push_str(separator);
        self.hint.push_str(more);
        self
    }

    /// `errno` of the operating system's error, if it was one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        self.source.as_ref()?.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.doing {
            "" => write!(f, "{}", self.what)?,
            doing => write!(f, "cannot {doing} {}", self.what)?,
        }
        if let Some(source) = &self.source {
            write!(f, ": {}", source.to_string().trim_end().replace('\n', "; "))?;
        }
        // A limit that was reached is the reason, whatever the caller expected.
        let limit = self.errno().and_then(|errno| limits::remedy(self.doing, &self.what, errno));
        match limit.unwrap_or(&self.hint) {
            "" => Ok(()),
            hint => write!(f, "; {hint}"),
        }
    }
}

impl std::error::Error for Error {}
