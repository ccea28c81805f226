//! The kernel's record of one CPU over the whole measurement, in pieces: the flight ring is frozen repeatedly while the
//! loop runs, consecutive pieces join without a hole, and a piece is dropped once no gap needs it.

use std::collections::VecDeque;

use lathunt_core::explain::record::Record;
use lathunt_core::explain::{explain_interval, Explanation, Interval};
use lathunt_core::npt::gap::{shares, Gap, Shares};
use lathunt_core::time::{Mono, Ns, Tid};
use lathunt_core::trace::flight::headers;

use crate::recorder::Frozen;
use crate::symbols::Symbols;

/// Events that end a gap may be recorded this long after it.
const AFTER: Ns = Ns::from_us(20);
/// No more pieces than this are joined: a longer gap is attributed from these.
const JOINED: usize = 64;

/// A gap with its attribution by the record.
pub(super) struct Seen {
    pub gap: Gap,
    pub shares: Option<Shares>,
    pub explanation: Option<Explanation>,
}

/// One CPU's pieces and the gaps that wait for them.
#[derive(Default)]
pub(super) struct Pieces {
    held: VecDeque<(u64, Mono, Vec<u8>)>, // id, frozen at, chunk; consecutive ids
    waiting: VecDeque<Gap>,
}

impl Pieces {
    /// Adds a gap, in the order of time.
    pub fn wait(&mut self, gap: Gap) {
        self.waiting.push_back(gap);
    }

    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a piece. Returns the gaps that it completes; `explain` selects those that get a full explanation.
    pub fn piece(
        &mut self,
        frozen: &Frozen,
        symbols: &Symbols,
        tid: Tid,
        explain: impl Fn(Ns) -> bool,
    ) -> Vec<Seen> {
        let Some((header, at)) = last_chunk(&frozen.bytes) else { return Vec::new() };
        if self.held.back().is_some_and(|(id, ..)| id + 1 != header.0) {
            self.held.clear(); // a hole: earlier pieces cannot be joined
        }
        self.held.push_back((header.0, header.1, frozen.bytes[at..].to_vec()));
        let ready = self.waiting.iter().take_while(|gap| gap.end + AFTER <= header.1).count();
        let gaps: Vec<Gap> = self.waiting.drain(..ready).collect();
        let seen = self.look(frozen, symbols, tid, gaps, explain);
        let keep_from = self.waiting.front().map_or(header.1, |gap| gap.begin);
        while self.held.len() > JOINED || self.held.get(1).is_some_and(|(_, frozen, _)| *frozen < keep_from) {
            self.held.pop_front();
        }
        seen
    }

    /// Gaps that will never be attributed.
    pub fn give_up(&mut self) -> Vec<Seen> {
        self.waiting.drain(..).map(|gap| Seen { gap, shares: None, explanation: None }).collect()
    }

    fn look(
        &self,
        frozen: &Frozen,
        symbols: &Symbols,
        tid: Tid,
        gaps: Vec<Gap>,
        explain: impl Fn(Ns) -> bool,
    ) -> Vec<Seen> {
        if gaps.is_empty() {
            return Vec::new();
        }
        let joined: Vec<u8> = self.held.iter().flat_map(|(_, _, chunk)| chunk.iter().copied()).collect();
        let whole = Frozen { bytes: joined, ..frozen.clone() };
        let Ok(window) = whole.decode(symbols) else {
            return gaps.into_iter().map(|gap| Seen { gap, shares: None, explanation: None }).collect();
        };
        let record = Record::new(&window);
        let told = |gap: Gap| {
            if gap.elsewhere {
                return Seen { gap, shares: None, explanation: None }; // the record is of another CPU
            }
            let interval = Interval { tid, cpu: gap.cpu, begin: gap.begin, end: gap.end };
            let explanation = explain(gap.length()).then(|| explain_interval(&record, &interval));
            Seen { shares: Some(shares(&record, tid, &gap)), explanation, gap }
        };
        gaps.into_iter().map(told).collect()
    }
}

/// Id and time of the newest piece in `bytes`, and its offset: an older one may precede it.
fn last_chunk(bytes: &[u8]) -> Option<((u64, Mono), usize)> {
    let all = headers(bytes);
    let (last, before) = all.split_last()?;
    let at: usize = before.iter().map(|header| header.chunk_bytes()).sum();
    (at < bytes.len()).then_some(((last.id, last.frozen), at))
}
