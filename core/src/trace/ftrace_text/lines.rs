//! Lines of a text that may be larger than memory, with their offsets.

use std::borrow::Cow;

/// Lines between two places of a text, each with its offset, without its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines<'t> {
    text: &'t [u8],
    at: usize,
    end: usize,
}

impl<'t> Lines<'t> {
    /// The lines in `[begin, end)`; both are starts of lines, or the end of the text.
    pub fn within(text: &'t [u8], begin: usize, end: usize) -> Self {
        Lines { text, at: begin, end: end.min(text.len()) }
    }

    /// Offset of the next line.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The next line; invalid UTF-8 is replaced.
    pub fn next(&mut self) -> Option<(usize, Cow<'t, str>)> {
        let rest = self.text.get(self.at..self.end).filter(|rest| !rest.is_empty())?;
        let begin = self.at;
        let length = line_end(rest);
        self.at += (length + 1).min(rest.len());
        let mut line = &rest[..length];
        while let [shorter @ .., b'\r'] = line {
            line = shorter;
        }
        let line = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        Some((begin, line))
    }
}

/// Length of the first line of `bytes`; searches sixteen bytes at a time.
fn line_end(bytes: &[u8]) -> usize {
    const STEP: usize = 16;
    let is_end = |byte: &u8| *byte == b'\n';
    let has_end = |chunk: &[u8]| chunk.iter().fold(false, |has, byte| has | is_end(byte));
    let passed = STEP * bytes.chunks_exact(STEP).take_while(|chunk| !has_end(chunk)).count();
    bytes[passed..].iter().position(is_end).map_or(bytes.len(), |at| passed + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn lines_are_those_of_the_text_at_their_places(parts in proptest::collection::vec("[ab\r]{0,40}", 0..12)) {
            let text = parts.join("\n");
            let mut lines = Lines::within(text.as_bytes(), 0, text.len());
            let mut offset = 0;
            for line in text.split_inclusive('\n') {
                let whole = line.trim_end_matches(['\n', '\r']);
                proptest::prop_assert_eq!(lines.next(), Some((offset, Cow::Borrowed(whole))));
                offset += line.len();
            }
            proptest::prop_assert_eq!(lines.next(), None);
        }
    }
}
