//! Is this file lathunt's own output, and of which kind? Only such a file may be overwritten, and only by its own kind.
//!
//! Recognized by content, not by name: the user may have mistyped a name. Nothing is parsed: the start of a file shows
//! what wrote it. A file that is not recognized belongs to another program.

/// Format name of runs.
const RUN_FORMAT: &str = "lathunt-run";
/// The policy in the head of every page written by lathunt.
const PAGE_POLICY: &[u8] =
    b"content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:\"";
const DRAWING: &[u8] = b"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 -52 ";
/// Chunk `tEXt` of a PNG: the program that made it.
pub const PICTURE_MARK: &[u8; 28] = b"\x00\x00\x00\x10tEXtSoftware\x00lathunt6\\\x83$";
/// Signature and first chunk of a PNG.
pub const PICTURE_HEAD: usize = 33;
/// In every trace for Perfetto: the name of its first group of tracks.
const PERFETTO_GROUP: &[u8] = b"interval 1: ";
/// In the heading of every trace of fibers, whose first line is that of any text of ftrace.
const FIBERS: &[u8] = b"\n# Fibers of one thread of the kernel. ";

/// A kind of file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON with this `format`.
    Json(String),
    /// A page of HTML: reports, plots, explanations.
    Page,
    /// A plot as SVG.
    Drawing,
    /// A plot as PNG.
    Picture,
    /// A trace for Perfetto.
    Perfetto,
    /// Rings of the BPF recorder.
    Flight,
    /// A trace.dat.
    Trace,
    /// Kernel symbols, as in /proc/kallsyms.
    Symbols,
    /// Any other text, by its heading; all digits are equal.
    Text(String),
}

impl Kind {
    /// The kind of runs.
    pub fn run() -> Kind {
        Kind::Json(RUN_FORMAT.to_owned())
    }

    /// The kind of traces of fibers.
    pub fn fibers() -> Kind {
        Kind::Text("fibers".to_owned())
    }

    /// Kind of the file that begins with `bytes`; `None` if unknown.
    pub fn of(bytes: &[u8]) -> Option<Kind> {
        let begin = &bytes[..bytes.len().min(1024)];
        if let Some(format) = format_of(begin) {
            return Some(Kind::Json(format));
        }
        let page = begin.get(..15).is_some_and(|begin| begin.eq_ignore_ascii_case(b"<!doctype html>"));
        let known = [
            (page && holds(begin, PAGE_POLICY), Kind::Page),
            (begin.starts_with(DRAWING), Kind::Drawing),
            (begin.get(PICTURE_HEAD..).is_some_and(|rest| rest.starts_with(PICTURE_MARK)), Kind::Picture),
            (begin.starts_with(b"LHFLIGHT"), Kind::Flight),
            (begin.starts_with(b"\x17\x08\x44tracing"), Kind::Trace),
            (begin.starts_with(b"\n") && holds(bytes, PERFETTO_GROUP), Kind::Perfetto),
            (is_symbol(begin), Kind::Symbols),
            (begin.starts_with(b"# tracer: nop\n") && holds(begin, FIBERS), Kind::fibers()),
        ];
        known
            .into_iter()
            .find_map(|(fits, kind)| fits.then_some(kind))
            .or_else(|| heading(begin).map(Kind::Text))
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Kind::Json(format) if format == RUN_FORMAT => "a run of lathunt".to_owned(),
            Kind::Json(format) => format!("a {format} file"),
            Kind::Page => "a page written by lathunt".to_owned(),
            Kind::Drawing => "an SVG written by lathunt".to_owned(),
            Kind::Picture => "a PNG written by lathunt".to_owned(),
            Kind::Perfetto => "a Perfetto trace written by lathunt".to_owned(),
            Kind::Flight => "a flight recording".to_owned(),
            Kind::Trace => "a trace.dat".to_owned(),
            Kind::Symbols => "a list of kernel symbols".to_owned(),
            Kind::Text(_) => "an earlier output of this command".to_owned(),
        }
    }
}

/// Whether `bytes` are a run that was saved before its end, by a measurement that was killed or stopped.
pub fn is_partial_run(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]);
    Kind::of(bytes) == Some(Kind::run())
        && value_of(&text, "complete").is_some_and(|value| value.starts_with("false"))
}

/// `"format": "lathunt-…"` near the beginning of an object.
fn format_of(begin: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(begin);
    let (value, _) = value_of(&text, "format")?.strip_prefix('"')?.split_once('"')?;
    value.starts_with("lathunt-").then(|| value.to_owned())
}

/// The text from the value of `key` on, near the beginning of an object.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = text.trim_start().strip_prefix('{')?.split_once(&format!("\"{key}\""))?;
    Some(rest.trim_start().strip_prefix(':')?.trim_start())
}

/// The first line that is distinctive enough, with every number replaced by `#`.
fn heading(begin: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(begin)
        .unwrap_or_else(|error| std::str::from_utf8(&begin[..error.valid_up_to()]).unwrap_or_default());
    let mut heading = String::new();
    for line in text.lines().take(3) {
        let mut digits = false;
        for c in line.trim_end().chars() {
            if !c.is_ascii_digit() {
                heading.push(c);
            } else if !digits {
                heading.push('#');
            }
            digits = c.is_ascii_digit();
        }
        if heading.len() >= 8 {
            return Some(heading);
        }
        heading.push('\n');
    }
    None
}

fn is_symbol(begin: &[u8]) -> bool {
    let line = begin.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let address = line.get(..16).is_some_and(|address| address.iter().all(u8::is_ascii_hexdigit));
    address && line.get(16) == Some(&b' ') && line.get(18) == Some(&b' ')
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_ftrace_is_no_trace_of_fibers() {
        let fibers = lathunt_core::tasks::fiber_trace::FiberTrace {
            carrier: Default::default(),
            cpu: Default::default(),
            fibers: Vec::new(),
            mutexes: Vec::new(),
            events: Vec::new(),
            overwritten: 0,
        };
        let (own, foreign) =
            (fibers.to_text(), "# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1   #P:1\n");
        assert_eq!(Kind::of(own.as_bytes()), Some(Kind::fibers()));
        assert_ne!(Kind::of(foreign.as_bytes()), Some(Kind::fibers()));
    }

    #[test]
    fn what_lathunt_writes_is_known_again_and_nothing_else() {
        let page = lathunt_core::report::html::plots("x", &[]).unwrap();
        assert_eq!(Kind::of(page.as_bytes()), Some(Kind::Page));
        assert_eq!(Kind::of(b"{\"format\":\"lathunt-run\",\"version\":1}"), Some(Kind::run()));
        let mut run = lathunt_core::run::Run::new(Default::default());
        run.complete = true;
        assert!(!is_partial_run(run.to_json().as_bytes()));
        run.stopped("SIGINT".to_owned());
        assert!(is_partial_run(run.to_json().as_bytes()) && !is_partial_run(b"{\"complete\": false}"));
        let pretty = Kind::of(b"{\n  \"format\": \"lathunt-check\",\n").unwrap();
        assert_eq!(pretty, Kind::Json("lathunt-check".into()));
        assert_eq!(Kind::of(b"ffffffff81000000 T _text\n"), Some(Kind::Symbols));
        let gaps = Kind::of(b"cpu,begin_ns,gap_ns,part_ns,who\n1,2,3,4,\"x\"\n");
        assert_eq!(gaps, Kind::of(b"cpu,begin_ns,gap_ns,part_ns,who\n"));
        assert_eq!(Kind::of(b"ts: 1.2, inner:3, outer:40\n"), Kind::of(b"ts: 99.1, inner:5, outer:0\nts"));
        for others in [
            &b"int main(){}\n"[..],
            b"<!DOCTYPE html>\n<title>mine</title>",
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            b"{\"format\":\"png\"}",
            b"\xff\xfe",
            b"",
        ] {
            assert!(
                !matches!(Kind::of(others), Some(Kind::Json(_) | Kind::Page | Kind::Picture)),
                "{others:?}"
            );
            assert_ne!(Kind::of(others).unwrap_or(Kind::Page), gaps.clone().unwrap());
        }
    }
}
