//! Text of ftrace: `trace-cmd report`, `/sys/kernel/tracing/trace`, and the latency format, also pasted from mail.
//!
//! Each line becomes a record with fields under the kernel's names, so that everything behind this sees no difference
//! to a binary trace. Forms differ by tool and kernel (four to seven flag columns, thread groups, microseconds or
//! nanoseconds); what is not understood is left out and counted, never guessed. The text is read once when it is opened,
//! for its classes, names and losses, and again by each walk: nothing is kept of its events, so that memory does not
//! grow with it.
//!
//! Text has function names instead of addresses: names get artificial addresses, which `Symbols` resolves.

pub(crate) mod cut;
mod fields;
mod filtered;
pub mod foreign;
pub(crate) mod line;
mod lines;
mod missing;
mod ordered;
mod pieces;
mod reading;
mod shapes;
pub mod tidy;

use std::borrow::Cow;
use std::fmt;

use super::item::Span;
use super::merge::Stream;
use super::source::{About, OpenError, Pieces, Source};
use lines::Lines;
use pieces::{Ground, Piece, Walk};
use reading::{recognise, Reading};
use shapes::Shapes;

/// Releases memory that holds bytes of a file; the next access reads them from the file again.
pub trait Release: Sync {
    /// `bytes` are not needed for now.
    fn release(&self, bytes: &[u8]);
}

/// An opened text.
pub struct FtraceText<'t> {
    text: Cow<'t, [u8]>,
    /// Owner of the memory of the text.
    release: Option<&'t dyn Release>,
    about: About,
    shapes: Shapes,
    pieces: Vec<Piece>,
    losses: Vec<LossLine>,
}

/// A line that reports lost events.
#[derive(Clone, Copy, Debug)]
struct LossLine {
    /// Time of the next event of the CPU.
    at: u64,
    line: usize,
    cpu: u32,
    count: Option<u64>,
}

impl LossLine {
    /// Sort key, as for events.
    fn key(&self) -> (u64, usize) {
        (self.at, self.line)
    }
}

/// Number of bytes after which memory is released.
const AT_ONCE: usize = 1 << 20;

impl<'t> FtraceText<'t> {
    /// Reads a whole text.
    ///
    /// # Errors
    /// No line in it looks like an event.
    pub fn open(text: &'t [u8]) -> Result<Self, OpenError> {
        FtraceText::of(text, None)
    }

    /// As [`FtraceText::open`], for a mapped file, whose memory `release` releases.
    ///
    /// # Errors
    /// No line in it looks like an event.
    pub fn open_releasing(text: &'t [u8], release: &'t dyn Release) -> Result<Self, OpenError> {
        FtraceText::of(text, Some(release))
    }

    fn of(text: &'t [u8], release: Option<&'t dyn Release>) -> Result<Self, OpenError> {
        let (text, release) = match tidy::bytes(text) {
            Cow::Borrowed(text) => (Cow::Borrowed(text), release),
            Cow::Owned(text) => (Cow::Owned(text), None),
        };
        recognise(&text)?;
        let starts_within = cut::starts_within(&String::from_utf8_lossy(&text[..text.len().min(AT_ONCE)]));
        let mut reading = Reading::default();
        let mut lines = Lines::within(&text, 0, text.len());
        let mut released = 0;
        while let Some((begin, line)) = lines.next() {
            let (end, is_last) = (lines.at(), lines.at() == text.len());
            // Cut off at any place, it may end within a number.
            let is_open = is_last && !text.ends_with(b"\n");
            match is_open {
                true if reading.lacks_more_than_one() => {}
                true if cut::ends_within(&tail(&text)) => reading.foreign(&line, begin),
                _ => reading.line(&line, begin, end),
            }
            if end - released >= AT_ONCE || is_last {
                release.iter().for_each(|release| release.release(&text[released..end]));
                released = end;
            }
        }
        Ok(reading.finish(text, release, starts_within))
    }

    fn ground(&self) -> Ground<'_> {
        Ground { text: &self.text, about: &self.about, shapes: &self.shapes, release: self.release }
    }
}

/// The last lines.
fn tail(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&text[text.len().saturating_sub(AT_ONCE)..])
}

impl fmt::Debug for FtraceText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FtraceText")
            .field("about", &self.about)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

impl Source for FtraceText<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        vec![Box::new(Walk::new(self.ground(), &self.pieces, &self.losses, span.from.0))]
    }

    fn pieces(&self) -> Vec<Pieces<'_>> {
        let follows = |pair: &[Piece]| pair[0].last <= pair[1].first && pair[0].begin < pair[1].begin;
        if self.pieces.is_empty() || !self.pieces.windows(2).all(follows) {
            return vec![Box::new(self.streams(Span::ALL).into_iter())];
        }
        let mut rest = &self.losses[..];
        let pieces = (0..self.pieces.len()).map(move |index| {
            let next = self.pieces.get(index + 1);
            let is_here = |next: &Piece| rest.partition_point(|loss| loss.key() <= next.key());
            let here = next.map_or(rest.len(), is_here);
            let (losses, behind) = rest.split_at(here);
            rest = behind;
            let walk = Walk::new(self.ground(), &self.pieces[index..=index], losses, 0);
            Box::new(walk) as Box<dyn Stream + '_>
        });
        vec![Box::new(pieces)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Mono;
    use crate::trace::item::Item;

    fn events(text: &FtraceText<'_>) -> usize {
        let mut walk = text.events(Span::ALL);
        let mut events = 0;
        while let Some(item) = walk.next() {
            events += usize::from(matches!(item, Item::Event(_)));
        }
        events
    }

    fn damage(text: &str) -> Vec<String> {
        FtraceText::open(text.as_bytes()).unwrap().info().damage.iter().map(ToString::to_string).collect()
    }

    /// `prio=12` of what was 120 would be a thread of RT 87.
    #[test]
    fn a_text_with_fewer_events_than_its_heading_tells_of_is_told_as_cut_and_so_is_its_last_line() {
        let line = "  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
        let whole = format!("# entries-in-buffer/entries-written: 2/2   #P:2\n#\n{line}{line}");
        assert!(damage(&whole).is_empty(), "{:?}", damage(&whole));
        let less = whole.strip_suffix(line).unwrap();
        assert!(damage(less)[0].contains("announces 2 events, but there are 1 lines"), "{:?}", damage(less));
        // Within a line it is not an event, unless it has all fields: pasted texts may lack the last end of a line.
        let within = |text: &str| events(&FtraceText::open(&text.as_bytes()[..text.len() - 17]).unwrap());
        let more = whole.replace("2/2", "4/4") + line;
        assert!(more[..more.len() - 17].ends_with("prio=12"));
        assert_eq!((within(&more), within(&whole)), (2, 1));
        assert!(damage(&more[..more.len() - 17])[0].contains("announces 4 events, but there are 2 lines"));
        assert!(damage(whole.trim_end()).is_empty());
    }

    /// clock_nanosleep is 115 on aarch64, and getgroups on x86-64.
    #[test]
    fn a_number_and_a_name_of_the_same_call_show_the_machine() {
        let text = |number: u32, name: &str, tid: u32| {
            format!("  a-1  [000]  1.000001: sys_exit: NR {number} = 0\n  a-{tid}  [000]  1.000002: sys_{name} -> 0x0\n")
        };
        let machine = |text: &str| FtraceText::open(text.as_bytes()).unwrap().info().machine.clone();
        assert_eq!(machine(&text(115, "clock_nanosleep", 1)), "aarch64");
        assert_eq!(machine(&text(115, "clock_nanosleep", 2)), "", "of another thread");
        assert_eq!(machine(&text(230, "clock_nanosleep", 1)), "");
        let with = |event: &str| format!("{}  a-1  [000]  1.000003: {event}\n", text(98, "x", 2));
        let limits = |text: &str| FtraceText::open(text.as_bytes()).unwrap().info().limits.join("; ");
        for event in ["ipi_entry: (Rescheduling interrupts)", "irq_handler_entry: irq=3 name=arch_timer"] {
            assert!(limits(&with(event)).contains("have numbers only"), "{event}");
        }
        assert_eq!(limits(&with("local_timer_entry: vector=236")), "");
        assert!(limits(&with("sched_waking: comm=a pid=1 prio=19")).contains("as those of x86-64"));
        let entered = "  a-1  [000]  1.000001: sys_enter: NR 98 (1, 2, 3, 4, 5, 6)\n";
        assert!(limits(entered).contains("no sys_exit"));
        assert_eq!(limits("  a-1  [000]  1.000003: sched_waking: comm=a pid=1 prio=19\n"), "");
    }

    /// A difference would be taken for a time: events in another order, and a recording of milliseconds.
    #[test]
    fn texts_without_times_or_events_are_refused_by_the_name_of_their_tool() {
        let refused = |text: &str| FtraceText::open(text.as_bytes()).unwrap_err().to_string();
        let line = |at: u32| {
            format!(" a 1 [000]  0.{at:06}: sched:sched_waking: comm=b pid=2 prio=120 target_cpu=000\n")
        };
        let times = |all: &[u32]| all.iter().map(|&at| line(at)).collect::<String>();
        assert!(refused(&times(&[0, 17, 3397, 37])).contains("perf script --deltatime"));
        // --reltime counts from the first event, too.
        assert!(FtraceText::open(times(&[0, 17, 3397, 4000]).as_bytes()).is_ok());
        let old = "# tracer: sched_switch\n  bash-3997  [001]   240.132281:   3997:120:R   + [001]  4055:120:R sleep\n  \
                   bash-3997  [001]   240.132284:   3997:120:R ==> [001]  4055: 94:R sleep\n";
        assert!(refused(old).contains("the tracer sched_switch of old kernels"), "{}", refused(old));
        let last = old.lines().last().unwrap();
        assert!(refused(last).contains("the tracer sched_switch of old kernels"), "{}", refused(last));
    }

    #[test]
    fn time_that_goes_back_on_a_cpu_is_damage_and_between_cpus_is_none() {
        let line = |cpu: u32, at: u32| {
            format!("  a-1  [00{cpu}]  1.00000{at}: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n")
        };
        let text = |of: &[(u32, u32)]| of.iter().map(|&(cpu, at)| line(cpu, at)).collect::<String>();
        assert_eq!(damage(&text(&[(0, 1), (1, 3), (0, 2), (1, 3)])), [""; 0]);
        let told = damage(&text(&[(0, 1), (1, 3), (0, 2), (1, 2), (1, 1)]));
        assert!(told.len() == 1 && told[0].contains("CPU 1: time goes back"), "{told:?}");
    }

    #[test]
    fn lines_that_are_no_events_are_counted_in_what_is_damaged() {
        let whole = "  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
        let damage = |cut: &[&str]| damage(&(whole.to_owned() + &cut.join("\n") + "\n"));
        let told: Vec<String> = damage(&[]);
        assert!(told.is_empty());
        let told: Vec<String> = damage(&["  a-1  [00", "  b-2", "x"]);
        let [told] = &told[..] else { panic!("{told:?}") };
        assert!(
            told.ends_with(
                "a line that is not an event: '  a-1  [00'; 2 more such lines: events are missing"
            ),
            "{told}"
        );
    }

    /// Left out lines, and the end of one recording, may hide switches of every CPU.
    #[test]
    fn lines_left_out_and_a_second_heading_are_losses_on_every_cpu() {
        let line = |cpu: u32, at: u32| {
            format!("  a-1  [00{cpu}]  1.00000{at}: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n")
        };
        let before = format!("...\n{}{}", line(0, 1), line(1, 2));
        let after = format!("{}{}{}...\n", line(1, 3), line(0, 4), line(1, 5));
        let losses = |between: &str| {
            let text = format!("{before}{between}{after}");
            let source = FtraceText::open(text.as_bytes()).unwrap();
            source.losses.iter().map(|loss| (loss.at, loss.cpu)).collect::<Vec<_>>()
        };
        assert_eq!(losses(""), []);
        let wanted = [(1_000_003_000, 1), (1_000_004_000, 0)];
        assert_eq!(losses("[...]\n"), wanted);
        assert_eq!(losses("# tracer: nop\n#\n"), wanted);
        let limits = |text: String| FtraceText::open(text.as_bytes()).unwrap().info().limits.clone();
        assert!(limits(format!("{before}# tracer: nop\n{after}"))[0].contains("another recording follows"));
        // Files of single CPUs, one after another.
        let heading = "# tracer: nop\n";
        assert_eq!(limits(format!("{heading}{}{heading}{}", line(0, 4), line(1, 1))), [""; 0]);
        assert_eq!(damage(&format!("{before}{after}")), [""; 0]);
        assert_eq!(damage(&format!("{before}# tracer: nop\n{after}")), [""; 0]);
        let told = damage(&format!("{before}[...]\n{after}"));
        assert!(told.len() == 1 && told[0].contains("left out of the text, at 1 place"), "{told:?}");
    }

    #[test]
    fn a_scheduler_event_without_its_threads_is_not_understood() {
        let whole = "  a-1  [000]  1.000001: sched_switch: a:1 [120] S ==> b:2 [120]\n";
        assert_eq!(damage(whole), [""; 0]);
        let told = damage(&whole.replace("==>", "->"));
        assert!(told[0].contains("a line that is not an event"), "{told:?}");
    }

    /// Time, CPU and count (events have none) of what streams show.
    fn shown<'t>(streams: impl Iterator<Item = Box<dyn Stream + 't>>) -> Vec<(u64, u32, Option<u64>)> {
        let mut all = Vec::new();
        for mut stream in streams {
            while stream.time().is_some() {
                all.push(match stream.item() {
                    Item::Event(record) => (record.at.0, record.cpu.0, None),
                    Item::Lost(loss) => (loss.before.0, loss.cpu.0, loss.count),
                    Item::Damage(damage) => panic!("{damage}"),
                });
                stream.advance();
            }
        }
        all
    }

    proptest::proptest! {
        /// A stable sort of the lines, each loss at the time of the next event of its CPU.
        #[test]
        fn lines_in_any_order_are_walked_in_the_order_of_time(
            lines in proptest::collection::vec((0u32..3, 0u64..60, 0u8..6), 1..80),
            is_sorted: bool,
            from in 0u64..60,
        ) {
            let mut lines = lines;
            lines[0].2 = 1;
            if is_sorted {
                lines.sort_by_key(|line| line.1);
            }
            let (mut text, mut wanted, mut last) = (String::new(), Vec::new(), 0);
            for (place, &(cpu, at, kind)) in lines.iter().enumerate() {
                if kind == 0 {
                    text += &format!("CPU:{cpu} [LOST {} EVENTS]\n", place + 1);
                    let next = lines[place..].iter().find(|line| line.2 > 0 && line.0 == cpu);
                    wanted.push((next.map_or(last, |next| next.1) * 1000, cpu, Some(place as u64 + 1)));
                } else {
                    text += &format!("  a-1  [00{cpu}]  0.{at:06}: sched_waking: comm=b pid=2 prio=9 target_cpu=000\n");
                    wanted.push((at * 1000, cpu, None));
                    last = at;
                }
            }
            wanted.sort_by_key(|line| line.0);
            let source = FtraceText::open(text.as_bytes()).unwrap();
            proptest::prop_assert_eq!(shown(source.streams(Span::ALL).into_iter()), wanted.clone());
            proptest::prop_assert_eq!(shown(source.pieces().into_iter().flatten()), wanted.clone());
            let span = Span { from: Mono(from * 1000), ..Span::ALL };
            wanted.retain(|line| line.0 >= from * 1000);
            proptest::prop_assert_eq!(shown(source.streams(span).into_iter()), wanted);
        }
    }

    /// Bytes that are no UTF-8 stand in names of threads that were cut.
    #[test]
    fn a_line_that_is_no_utf8_is_read_in_its_place() {
        let line = |at: u32| {
            format!("  a-1  [000]  1.00000{at}: sched_waking: comm=X pid=2 prio=9 target_cpu=000\n")
        };
        let mut text = (1..5).map(line).collect::<String>().into_bytes();
        let place = text.iter().rposition(|byte| *byte == b'X').unwrap();
        text[place] = 0xc3;
        let source = FtraceText::open(&text).unwrap();
        assert_eq!(shown(source.streams(Span::ALL).into_iter()).len(), 4);
    }
}
