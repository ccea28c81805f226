//! The records of one CPU, in order.

use std::collections::HashSet;
use std::ops::Range;

use super::super::item::{Damage, Item, Loss, Record, Span};
use super::super::merge;
use super::super::ring_page::{PageWalk, Step};
use super::pages::{CpuPages, PagePlace, Unpacked};
use super::TraceDat;
use crate::time::{Cpu, Mono};

/// The current item.
#[derive(Debug)]
enum Head {
    Event { class: u32, payload: Range<u32> },
    Lost { count: Option<u64>, after: Option<u64> },
    Damage(Damage),
    End,
}

/// A walk over one CPU.
#[derive(Debug)]
pub(super) struct Stream<'t> {
    trace: &'t TraceDat<'t>,
    pages: &'t CpuPages<'t>,
    unpacked: Unpacked,
    /// Number of the page being read, and where its bytes are.
    page: usize,
    /// First page of the next walk.
    end: usize,
    place: PagePlace,
    walk: PageWalk,
    head: Head,
    /// The item after `head`, if one step finds two.
    queued: Option<Head>,
    /// Time of `head`.
    at: u64,
    /// Time of the last event, for losses.
    last: Option<u64>,
    /// Ids without a format, each reported once.
    unknown: HashSet<u16>,
    /// Time went backwards here, reported once.
    backwards: bool,
    /// An event had a time beyond [`Mono::LATEST`], reported once.
    impossible: bool,
    /// The data after the last event could not be read: a loss until the next event.
    hole: bool,
}

impl<'t> Stream<'t> {
    pub fn begin(trace: &'t TraceDat<'t>, pages: &'t CpuPages<'t>, span: Span) -> Self {
        let mut stream = Stream::nowhere(trace, pages);
        stream.page = if span.from.0 == 0 { 0 } else { stream.page_before(span.from.0) };
        stream.start();
        while !matches!(stream.head, Head::End) && stream.at < span.from.0 {
            merge::Stream::advance(&mut stream);
        }
        stream
    }

    /// The walk, in pieces.
    pub fn pieces(
        trace: &'t TraceDat<'t>,
        pages: &'t CpuPages<'t>,
    ) -> impl Iterator<Item = Self> + Send + 't {
        let next = |page: &usize| Some(pages.next_piece(*page)).filter(|next| *next < pages.len());
        std::iter::successors((pages.len() > 0).then_some(0), next).map(move |page| {
            let mut stream = Stream::nowhere(trace, pages);
            stream.page = page;
            stream.end = pages.next_piece(page);
            (stream.last, stream.hole) = stream.last_before(page);
            stream.start();
            stream
        })
    }

    fn nowhere(trace: &'t TraceDat<'t>, pages: &'t CpuPages<'t>) -> Self {
        Stream {
            trace,
            pages,
            unpacked: Unpacked::default(),
            page: 0,
            end: pages.len(),
            place: PagePlace::default(),
            walk: PageWalk::nowhere(),
            head: Head::End,
            queued: None,
            at: 0,
            last: None,
            unknown: HashSet::new(),
            backwards: false,
            impossible: false,
            hole: false,
        }
    }

    fn start(&mut self) {
        self.head = self.open_page().or_else(|| self.find()).unwrap_or(Head::End);
    }

    /// Time of the last event in the page before `page`, if there is one, and whether that page could not be read to
    /// its end. A piece knows nothing else of the time before it.
    fn last_before(&mut self, page: usize) -> (Option<u64>, bool) {
        let Some(before) = page.checked_sub(1) else { return (None, false) };
        let Ok(place) = self.pages.load(before, &mut self.unpacked) else { return (None, true) };
        let page = self.pages.bytes(&place, &self.unpacked);
        let Ok(mut walk) = PageWalk::begin(page, &self.pages.layout) else { return (None, true) };
        let mut last = None;
        loop {
            match walk.step(page) {
                Step::Record { at, .. } => {
                    last = Some(self.trace.time.ns(at)).filter(|at| *at <= Mono::LATEST.0).or(last);
                }
                Step::End => return (last, false),
                Step::Broken(_) => return (last, true),
            }
        }
    }

    /// Time of the last readable event on any CPU; computed once.
    fn end_of_trace(&self) -> Option<u64> {
        *self.trace.end.get_or_init(|| self.find_end())
    }

    fn find_end(&self) -> Option<u64> {
        let last_of = |pages: &'t CpuPages<'t>| {
            let mut walk = Stream::nowhere(self.trace, pages);
            (1..=pages.len()).rev().find_map(|page| walk.last_before(page).0)
        };
        self.trace.cpus.iter().filter_map(last_of).max()
    }

    /// The end of the walk: a loss, if the data at its end were not readable.
    fn over(&mut self) -> Head {
        let is_last = self.page == self.end && self.end == self.pages.len();
        let tells = is_last && (std::mem::take(&mut self.hole) || self.pages.is_cut());
        self.page = self.end + 1;
        if !tells {
            return Head::End;
        }
        self.at = self.end_of_trace().max(self.last).unwrap_or(0);
        Head::Lost { count: None, after: self.last }
    }

    /// The last page that starts before `time`, by bisection over page stamps.
    fn page_before(&mut self, time: u64) -> usize {
        let (mut low, mut high) = (0, self.pages.len());
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            // A page that cannot be read counts as late: the walk then starts before it.
            let early = self.pages.load(middle, &mut self.unpacked).is_ok_and(|place| {
                PageWalk::begin(self.pages.bytes(&place, &self.unpacked), &self.pages.layout)
                    .is_ok_and(|walk| self.trace.time.ns(walk.time()) < time)
            });
            if early {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Opens page `self.page`; returns the item before its first record, if any.
    fn open_page(&mut self) -> Option<Head> {
        self.walk = PageWalk::nowhere();
        if self.page >= self.end {
            return Some(self.over());
        }
        match self.pages.load(self.page, &mut self.unpacked) {
            Ok(place) => self.place = place,
            Err(damage) => {
                self.page = self.pages.next_chunk(self.page) - 1;
                self.hole = true;
                return Some(Head::Damage(damage));
            }
        }
        let page = self.pages.bytes(&self.place, &self.unpacked);
        match PageWalk::begin(page, &self.pages.layout) {
            Ok(walk) => {
                self.walk = walk;
                let lost = walk.lost?;
                let begin = Some(self.trace.time.ns(walk.time())).filter(|begin| *begin <= Mono::LATEST.0);
                self.at = begin.max(self.last).unwrap_or(0);
                self.hole = false;
                Some(Head::Lost { count: lost.count, after: self.last })
            }
            Err(at) => Some(self.damaged(at, "a page that is cut off or whose length cannot be")),
        }
    }

    /// The next item in this page or the following ones; `None` after the last.
    fn find(&mut self) -> Option<Head> {
        loop {
            let page = self.pages.bytes(&self.place, &self.unpacked);
            match self.walk.step(page) {
                Step::Record { at, from, to } => {
                    let id = page.get(from as usize..from as usize + 2).unwrap_or(&[]);
                    let id = self.pages.layout.order.unsigned(id) as u16;
                    let class = self.trace.class_of_id[usize::from(id)];
                    let now = self.trace.time.ns(at);
                    if now > Mono::LATEST.0 {
                        self.hole = true;
                        if std::mem::replace(&mut self.impossible, true) {
                            continue;
                        }
                        return Some(self.impossible_time(now));
                    }
                    self.at = now;
                    if class != u32::MAX {
                        let event = Head::Event { class, payload: from..to };
                        let backwards = self.last.is_some_and(|last| self.at < last) && !self.backwards;
                        if backwards {
                            self.queued = Some(event);
                            return Some(self.time_went_back());
                        }
                        if std::mem::take(&mut self.hole) {
                            self.queued = Some(event);
                            return Some(Head::Lost { count: None, after: self.last });
                        }
                        self.last = Some(self.at);
                        return Some(event);
                    }
                    if !self.unknown.contains(&id) {
                        return Some(self.unknown_id(id, from));
                    }
                }
                Step::End => {
                    self.page += 1;
                    if let Some(head) = self.open_page() {
                        return Some(head);
                    }
                }
                Step::Broken(at) => {
                    return Some(self.damaged(at, "a record that reaches past the end of its page"));
                }
            }
        }
    }

    fn damaged(&mut self, at: u32, what: &str) -> Head {
        self.hole = true;
        let offset = self.pages.file_offset(self.page) + u64::from(at);
        let cpu = self.pages.cpu;
        Head::Damage(Damage::new(offset, format!("CPU {cpu}: {what}; the rest of this page is skipped")))
    }

    fn unknown_id(&mut self, id: u16, from: u32) -> Head {
        self.unknown.insert(id);
        let offset = self.pages.file_offset(self.page) + u64::from(from);
        let what = format!("CPU {}: events of unknown id {id} are skipped", self.pages.cpu);
        Head::Damage(Damage::general(offset, what))
    }

    fn impossible_time(&mut self, now: u64) -> Head {
        let offset = self.pages.file_offset(self.page);
        let (cpu, now) = (self.pages.cpu, Mono(now));
        let what = format!("CPU {cpu}: an event at {now}, which no clock shows; such events are skipped");
        Head::Damage(Damage::new(offset, what))
    }

    fn time_went_back(&mut self) -> Head {
        self.backwards = true;
        let last = Mono(self.last.unwrap_or(0));
        let what = format!("CPU {}: time goes back from {last} to {}", self.pages.cpu, Mono(self.at));
        Head::Damage(Damage::new(self.pages.file_offset(self.page), what))
    }
}

impl merge::Stream for Stream<'_> {
    #[inline]
    fn time(&self) -> Option<u64> {
        match self.head {
            Head::End => None,
            _ => Some(self.at),
        }
    }

    #[inline]
    fn item(&self) -> Item<'_> {
        let cpu = Cpu(self.pages.cpu);
        let origin = self.pages.origin;
        match &self.head {
            Head::Event { class, payload } => {
                let page = self.pages.bytes(&self.place, &self.unpacked);
                let data = page.get(payload.start as usize..payload.end as usize).unwrap_or(&[]);
                Item::Event(Record { at: Mono(self.at), cpu, class: *class, origin, data, first_bit: 0 })
            }
            Head::Lost { count, after } => {
                let (after, before) = (after.map(Mono), Mono(self.at));
                Item::Lost(Loss { cpu, after, before, count: *count, origin, inferred_within: None })
            }
            Head::Damage(damage) => Item::Damage(damage.clone()),
            Head::End => Item::Damage(Damage::new(0, "the walk is over")),
        }
    }

    #[inline]
    fn advance(&mut self) {
        self.head = match self.queued.take() {
            Some(event) => {
                self.last = Some(self.at);
                event
            }
            None if matches!(self.head, Head::End) => Head::End,
            None => self.find().unwrap_or(Head::End),
        };
    }
}
