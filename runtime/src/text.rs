//! Lines to standard error, from any context: no allocation, no lock.

/// A line of text without an allocation.
pub(crate) struct Line {
    bytes: [u8; 200],
    used: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line { bytes: [0; 200], used: 0 }
    }
}

impl Line {
    pub(crate) fn add(&mut self, text: &[u8]) {
        let room = text.len().min(self.bytes.len() - self.used);
        self.bytes[self.used..self.used + room].copy_from_slice(&text[..room]);
        self.used += room;
    }

    pub(crate) fn number(&mut self, mut number: usize) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.add(&digits[at..]);
    }

    pub(crate) fn print(&self) {
        // SAFETY: the bytes are initialised.
        unsafe { libc::write(2, self.bytes.as_ptr().cast(), self.used) };
    }
}

/// A line to standard error, from any context.
pub(crate) fn say(text: &str) {
    let mut line = Line::default();
    line.add(text.as_bytes());
    line.add(b"\n");
    line.print();
}
