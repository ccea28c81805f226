//! Text in fixed buffers.

use std::ffi::CStr;
use std::fmt::{self, Write};

pub(crate) fn text_of(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_until_nul(bytes).unwrap_or_default()
}

/// `head` followed by `tail` as a C string in `buffer`; `None` if it does not fit.
pub(crate) fn path_into<'a>(buffer: &'a mut [u8], tail: fmt::Arguments, head: &[u8]) -> Option<&'a CStr> {
    let mut text = Text { bytes: buffer, length: 0 };
    text.push(head)?;
    text.write_fmt(tail).ok()?;
    text.push(&[0])?;
    CStr::from_bytes_until_nul(buffer).ok()
}

/// Formats into a fixed buffer.
pub(crate) struct Text<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) length: usize,
}

impl Text<'_> {
    pub(crate) fn push(&mut self, more: &[u8]) -> Option<()> {
        self.bytes.get_mut(self.length..self.length + more.len())?.copy_from_slice(more);
        self.length += more.len();
        Some(())
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes()).ok_or(fmt::Error)
    }
}
