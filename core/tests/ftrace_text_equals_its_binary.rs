//! The text that `trace-cmd report -t` prints of a trace.dat means the same events as the file itself.

use lathunt_core::trace::event::{Kind, Strings};
use lathunt_core::trace::ftrace_text::FtraceText;
use lathunt_core::trace::item::{Item, Span};
use lathunt_core::trace::normalize::Normalizer;
use lathunt_core::trace::source::Source;
use lathunt_core::trace::trace_dat::TraceDat;

/// An event as text, with names instead of symbols.
fn described(kind: &Kind, strings: &Strings) -> String {
    let mut text = String::new();
    let raw = format!("{kind:?}");
    let mut rest = raw.as_str();
    while let Some((before, behind)) = rest.split_once("Sym(") {
        let (number, behind) = behind.split_once(')').unwrap();
        let sym = lathunt_core::trace::event::Sym(number.parse().unwrap());
        text.push_str(before);
        text.push_str(strings.get(sym));
        rest = behind;
    }
    text + rest
}

fn events(source: &dyn Source) -> Vec<(u64, u32, Option<i32>, String)> {
    let mut normalizer = Normalizer::new(source);
    let mut walk = source.events(Span::ALL);
    let mut events = Vec::new();
    while let Some(item) = walk.next() {
        if let Item::Event(_) = item {
            let event = normalizer.item(&item).unwrap();
            let text = described(&event.kind, normalizer.strings());
            events.push((event.at.0, event.cpu.0, event.current.map(|tid| tid.0), text));
        }
    }
    events
}

#[test]
fn a_report_of_trace_cmd_means_the_same_events_as_the_file() {
    let file = TraceDat::open(include_bytes!("data/trace_dat/v7_zstd.dat")).unwrap();
    let text = FtraceText::open(include_bytes!("data/trace_dat/v7_zstd.text")).unwrap();
    assert_eq!(text.info().damage, vec![]);
    let (binary, text) = (events(&file), events(&text));
    assert_eq!(binary.len(), text.len());
    for (binary, text) in binary.iter().zip(&text) {
        assert_eq!((binary.0, binary.1, binary.2), (text.0, text.1, text.2), "{} {}", binary.3, text.3);
        // The text has the name of a function without the offset in it. The symbols in this file are few: trace-cmd
        // takes the nearest, however far, where we keep the address.
        let unknown = binary.3.contains("Some(0x") || binary.3.contains("+0x");
        let plain = |text: &str| match text.split_once("function: ").or_else(|| text.split_once("callback: "))
        {
            Some((before, behind)) if unknown => {
                before.to_owned() + behind.split_once(')').map_or("", |part| part.1)
            }
            _ => text.to_owned(),
        };
        assert_eq!(plain(&binary.3), plain(&text.3));
    }
}

#[test]
fn the_kernels_own_trace_file_is_read() {
    let trace = FtraceText::open(include_bytes!("data/ftrace_text/tracefs.txt")).unwrap();
    assert_eq!(trace.info().damage, vec![]);
    let events = events(&trace);
    let count = |start: &str| events.iter().filter(|event| event.3.starts_with(start)).count();
    assert!(count("Switch") > 3 && count("SysExit") > 3, "{events:?}");
    assert_eq!(count("Other"), 0, "{events:?}");
}

#[test]
fn a_text_of_something_else_is_refused() {
    for text in ["", "hello\nworld\n", "{\"json\": [1, 2]}"] {
        let error = FtraceText::open(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("not a text of ftrace"), "{error}");
    }
}

#[test]
fn damaged_text_never_panics() {
    let text = include_bytes!("data/trace_dat/v7_zstd.text");
    let tracefs = include_bytes!("data/ftrace_text/tracefs.txt");
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut number = |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    };
    for case in 0..400 {
        let whole: &[u8] = if case % 2 == 0 { &text[..8192] } else { tracefs };
        let mut bytes = whole.to_vec();
        for _ in 0..20 {
            let at = number(bytes.len());
            bytes[at] = b"\0 []:.-=(),+<>0a\xff\xe2"[number(18)];
        }
        bytes.truncate(number(bytes.len()) + 1);
        if let Ok(trace) = FtraceText::open(&bytes) {
            let _ = events(&trace);
        }
    }
}
