//! A page ("sub-buffer") of the kernel's trace ring buffer.
//!
//! Layout (include/linux/ring_buffer.h, kernel/trace/ring_buffer.c): u64 time stamp; `local_t commit`, whose low 27
//! bits are the used length, bit 31 "events were lost before this page", bit 30 "and their count follows the data";
//! then records. A record is a word of 5 bits type_len and 27 bits delta (the other way round on big-endian), and:
//!
//! | type_len | meaning |
//! |---|---|
//! | 1..=28 | payload of 4 × type_len bytes |
//! | 0 | the next word is the length plus 4, then the payload |
//! | 29 | padding: delta 0 ends the page; else the next word is how much to skip |
//! | 30 | time extend: the next word is the upper part of the delta |
//! | 31 | absolute stamp of 59 bits; the upper 5 are those of the previous time (since 4.17) |
//!
//! The trace's `header_page` has the offset of the data and the width of `commit`: pages are not always 4096 bytes, and
//! `long` is not always 8.

use super::bytes::Order;

const LOST: u32 = 1 << 31;
const LOST_COUNTED: u32 = 1 << 30;
const LENGTH: u32 = (1 << 27) - 1;
/// Bits of a time that an absolute stamp does not have.
const STAMP_MISSING: u64 = 0xf8 << 56;

/// Layout of a page, from `header_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageLayout {
    /// Offset of `commit`.
    pub commit_offset: usize,
    /// Its width: the `long` of the recording kernel.
    pub commit_size: usize,
    /// Offset of the first record.
    pub data_offset: usize,
    /// Byte order.
    pub order: Order,
}

/// Maximum header of a page: a larger one is damage.
const LARGEST_HEADER: usize = 1 << 20;

impl PageLayout {
    /// The layout of every 64-bit kernel.
    #[must_use]
    pub const fn usual(order: Order) -> Self {
        PageLayout { commit_offset: 8, commit_size: 8, data_offset: 16, order }
    }

    /// From the text of `header_page`; missing fields have the usual values.
    #[must_use]
    pub fn parse(text: &str, order: Order) -> Self {
        let mut layout = PageLayout::usual(order);
        let number = |line: &str, key: &str| -> Option<usize> {
            let (_, rest) = line.split_once(key)?;
            let number: usize = rest.split(';').next()?.trim().parse().ok()?;
            Some(number.min(LARGEST_HEADER))
        };
        for line in text.lines() {
            let declaration = line.split(';').next().unwrap_or("");
            match declaration.split_whitespace().next_back() {
                Some("commit") => {
                    layout.commit_offset = number(line, "offset:").unwrap_or(layout.commit_offset);
                    layout.commit_size = number(line, "size:").unwrap_or(layout.commit_size);
                }
                Some("data") => layout.data_offset = number(line, "offset:").unwrap_or(layout.data_offset),
                _ => {}
            }
        }
        layout
    }
}

/// Events lost before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostBefore {
    /// Their number, if the kernel had room to store it.
    pub count: Option<u64>,
}

/// A step through a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A record: its time and the place of its payload in the page.
    Record {
        /// Nanoseconds (or whatever the trace clock counts).
        at: u64,
        /// First byte of the payload.
        from: u32,
        /// First byte after it.
        to: u32,
    },
    /// The page is read to its end.
    End,
    /// The record at this offset of the page reaches past its end; the rest of the page cannot be read.
    Broken(u32),
}

/// Walks through the records of one page.
#[derive(Clone, Copy, Debug)]
pub struct PageWalk {
    at: u64,
    next: usize,
    end: usize,
    order: Order,
    /// Events lost before this page.
    pub lost: Option<LostBefore>,
}

impl PageWalk {
    /// A walk without a page, at its end.
    #[must_use]
    pub fn nowhere() -> Self {
        PageWalk { at: 0, next: 0, end: 0, order: Order::Little, lost: None }
    }

    /// A walk at the start of `page`; `Err` is the offset of the damage.
    ///
    /// # Errors
    /// The page is too short for its own header or for the length it announces; or its header is all zeros, as the kernel
    /// writes none: the disk lost it, for example in a power failure.
    pub fn begin(page: &[u8], layout: &PageLayout) -> Result<Self, u32> {
        let order = layout.order;
        let at = order.u64_at(page, 0).ok_or(0u32)?;
        // The flags are in the low 32 bits of `commit`, for any width.
        let low_word = match order {
            Order::Little => layout.commit_offset,
            Order::Big => layout.commit_offset + layout.commit_size.saturating_sub(4),
        };
        let commit = order.u32_at(page, low_word).ok_or(8u32)?;
        if at == 0 && commit == 0 {
            return Err(0);
        }
        let end = layout.data_offset + (commit & LENGTH) as usize;
        if end > page.len() || layout.data_offset > page.len() {
            return Err(layout.commit_offset as u32);
        }
        let lost = (commit & LOST != 0).then(|| {
            let counted = commit & LOST_COUNTED != 0;
            let count = match layout.commit_size {
                4 => order.u32_at(page, end).map(u64::from),
                _ => order.u64_at(page, end),
            };
            LostBefore { count: count.filter(|_| counted) }
        });
        Ok(PageWalk { at, next: layout.data_offset, end, order, lost })
    }

    /// Time of the page, or of the last step.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.at
    }

    /// The next record of the same `page`.
    #[inline]
    pub fn step(&mut self, page: &[u8]) -> Step {
        loop {
            if self.next >= self.end {
                return Step::End;
            }
            let begin = self.next;
            let Some(word) = self.word(page, begin) else { return self.broken(begin) };
            let (kind, delta) = match self.order {
                Order::Little => (word & 31, u64::from(word >> 5)),
                Order::Big => (word >> 27, u64::from(word & LENGTH)),
            };
            match kind {
                1..=28 => {
                    let from = begin + 4;
                    let to = from + 4 * kind as usize;
                    if to > self.end {
                        return self.broken(begin);
                    }
                    self.at = self.at.wrapping_add(delta);
                    self.next = to;
                    return Step::Record { at: self.at, from: from as u32, to: to as u32 };
                }
                29 if delta == 0 => {
                    self.next = self.end;
                    return Step::End;
                }
                _ => {
                    let Some(second) = self.word(page, begin + 4) else { return self.broken(begin) };
                    match kind {
                        0 => {
                            let from = begin + 8;
                            let len = (second.saturating_sub(4) as usize + 3) & !3;
                            let to = from + len;
                            if second < 4 || to > self.end {
                                return self.broken(begin);
                            }
                            self.at = self.at.wrapping_add(delta);
                            self.next = to;
                            return Step::Record { at: self.at, from: from as u32, to: to as u32 };
                        }
                        29 => {
                            // A discarded event. Its delta counts, as in libtraceevent's kbuffer.
                            self.at = self.at.wrapping_add(delta);
                            self.next = begin + 4 + (second as usize).max(4);
                        }
                        30 => {
                            self.at = self.at.wrapping_add(delta + (u64::from(second) << 27));
                            self.next = begin + 8;
                        }
                        _ => {
                            self.at = absolute(delta + (u64::from(second) << 27), self.at);
                            self.next = begin + 8;
                        }
                    }
                }
            }
        }
    }

    #[inline]
    fn word(&self, page: &[u8], at: usize) -> Option<u32> {
        self.order.u32_at(page.get(..self.end)?, at)
    }

    fn broken(&mut self, at: usize) -> Step {
        self.next = self.end;
        Step::Broken(at as u32)
    }
}

/// The full time of an absolute stamp of 59 bits (`rb_fix_abs_ts`): the missing bits are those of the previous time,
/// plus one if time would go backwards.
fn absolute(stamp: u64, before: u64) -> u64 {
    if before & STAMP_MISSING == 0 {
        return stamp;
    }
    let full = stamp | (before & STAMP_MISSING);
    if full < before {
        full.wrapping_add(1 << 59)
    } else {
        full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(order: Order, commit_flags: u32, records: &[u8], after: &[u8]) -> Vec<u8> {
        let commit = records.len() as u32 | commit_flags;
        let mut page = match order {
            Order::Little => [1000u64.to_le_bytes(), u64::from(commit).to_le_bytes()].concat(),
            Order::Big => [1000u64.to_be_bytes(), u64::from(commit).to_be_bytes()].concat(),
        };
        page.extend(records);
        page.extend(after);
        page
    }

    fn words(order: Order, words: &[u32]) -> Vec<u8> {
        words
            .iter()
            .flat_map(|w| if order == Order::Little { w.to_le_bytes() } else { w.to_be_bytes() })
            .collect()
    }

    fn head(order: Order, kind: u32, delta: u32) -> u32 {
        if order == Order::Little {
            kind | (delta << 5)
        } else {
            (kind << 27) | delta
        }
    }

    fn times(page: &[u8], order: Order) -> Vec<(u64, usize)> {
        let mut walk = PageWalk::begin(page, &PageLayout::usual(order)).unwrap();
        let mut seen = Vec::new();
        while let Step::Record { at, from, to } = walk.step(page) {
            seen.push((at, (to - from) as usize));
        }
        seen
    }

    #[test]
    fn all_kinds_of_records_carry_the_time_on_in_both_byte_orders() {
        for order in [Order::Little, Order::Big] {
            let records = words(
                order,
                &[
                    head(order, 2, 5),
                    0,
                    0, // 8 bytes at 1005
                    head(order, 30, 1),
                    1, // extend by 1 + 2^27
                    head(order, 0, 0),
                    12,
                    0,
                    0, // 8 bytes, long form
                    head(order, 29, 2),
                    4, // discarded, no payload behind its length
                    head(order, 31, 7),
                    3, // absolute: 7 + 3 * 2^27
                    head(order, 1, 0),
                    0,
                    head(order, 29, 0),
                    0xdead_beef, // the rest is padding
                ],
            );
            let second = 1005 + 1 + (1 << 27);
            let expected = vec![(1005, 8), (second, 8), (7 + 3 * (1 << 27), 4)];
            assert_eq!(times(&page(order, 0, &records, &[]), order), expected, "{order:?}");
        }
    }

    #[test]
    fn lost_events_are_counted_where_the_kernel_had_room() {
        let layout = PageLayout::usual(Order::Little);
        let one = words(Order::Little, &[head(Order::Little, 1, 0), 0]);
        let plain = page(Order::Little, 0, &one, &[]);
        assert_eq!(PageWalk::begin(&plain, &layout).unwrap().lost, None);
        let some = page(Order::Little, LOST, &one, &42u64.to_le_bytes());
        assert_eq!(PageWalk::begin(&some, &layout).unwrap().lost, Some(LostBefore { count: None }));
        let counted = page(Order::Little, LOST | LOST_COUNTED, &one, &42u64.to_le_bytes());
        assert_eq!(PageWalk::begin(&counted, &layout).unwrap().lost, Some(LostBefore { count: Some(42) }));
    }

    #[test]
    fn a_record_past_the_end_of_the_page_is_broken_there() {
        let records = words(Order::Little, &[head(Order::Little, 1, 1), 0, head(Order::Little, 28, 1), 0]);
        let page = page(Order::Little, 0, &records, &[]);
        let mut walk = PageWalk::begin(&page, &PageLayout::usual(Order::Little)).unwrap();
        assert!(matches!(walk.step(&page), Step::Record { at: 1001, .. }));
        assert_eq!(walk.step(&page), Step::Broken(24));
        assert_eq!(walk.step(&page), Step::End);
    }

    #[test]
    fn absolute_stamps_take_their_missing_bits_from_the_time_before() {
        let before = (0x10u64 << 59) | 500;
        assert_eq!(absolute(600, before), (0x10 << 59) | 600);
        assert_eq!(absolute(400, before), (0x11 << 59) | 400);
        assert_eq!(absolute(400, 500), 400);
    }

    #[test]
    fn the_layout_of_a_32_bit_kernel_is_read_from_header_page() {
        let text = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:4;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:12;\tsize:4084;\tsigned:0;\n";
        let layout = PageLayout::parse(text, Order::Little);
        assert_eq!((layout.commit_size, layout.data_offset), (4, 12));
    }
}
