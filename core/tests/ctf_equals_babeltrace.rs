//! Our reading of CTF against the text of `babeltrace2 --clock-cycles --no-delta`, field by field.
//!
//! The traces of this repository are written by tests/data/ctf/make.py. Real LTTng traces lie beside the repository
//! (../shared/traces) where it is developed; those tests need `tar` and `babeltrace2` as well.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests read files and start the oracle

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::item::{Item, Record, Span};
use lathunt_core::trace::source::Source;
use lathunt_core::trace::value::Value;

/// What was compared.
#[derive(Debug, Default, PartialEq)]
struct Compared {
    events: usize,
    lost: u64,
    fields: usize,
}

/// A number as babeltrace2 prints it: `-3`, `0x1F`, `2.5`, or `( "LABEL" : container = 5 )`.
fn number(text: &str) -> &str {
    let label = if text.starts_with('(') { text.split_once("container = ") } else { None };
    let text = label.map_or(text, |(_, rest)| rest);
    text.split([',', ' ', '}', ']', ')']).next().unwrap_or("")
}

fn same(value: &Value<'_>, text: &str) -> bool {
    let numbers_equal = |value: &Value<'_>, text: &str| {
        let text = number(text);
        let hex = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let octal = text.strip_prefix('0').and_then(|octal| u64::from_str_radix(octal, 8).ok());
        [hex, octal].contains(&value.bits()) || value.matches(text)
    };
    match value {
        // babeltrace 2.0.4 leaves the text of an earlier event standing where a string field is empty.
        Value::Text([]) => text.starts_with('"'),
        Value::Text(bytes) => {
            let quoted = String::from_utf8_lossy(bytes).replace('\\', "\\\\").replace('"', "\\\"");
            let quoted = quoted.replace('\n', "\\n").replace('\t', "\\t");
            text.starts_with(&format!("\"{quoted}\""))
                || bytes.iter().any(|byte| !byte.is_ascii_graphic() && *byte != b' ')
        }
        Value::Array(array) => (0..array.len()).all(|index| {
            let key = format!("[{index}] = ");
            text.find(&key)
                .is_some_and(|at| numbers_equal(&array.get(index).unwrap(), &text[at + key.len()..]))
        }),
        value => numbers_equal(value, text),
    }
}

/// Compares one event with one line; gives the number of fields.
fn compare_event(ctf: &Ctf<'_>, record: &Record<'_>, line: &str, shared_clock: bool) -> usize {
    let class = ctf.class(record).unwrap();
    let (time, rest) = line.strip_prefix('[').and_then(|line| line.split_once("] ")).expect(line);
    if shared_clock {
        assert_eq!(time.parse(), Ok(record.at.0), "{line}");
    }
    let (head, fields) = rest.split_once(": {").map_or((rest, ""), |(head, _)| (head, &rest[head.len()..]));
    let name = head.split(' ').next_back().unwrap_or("");
    assert_eq!(class.full_name(), name, "{line}");
    if let Some((_, cpu)) = fields.split_once("{ cpu_id = ") {
        assert_eq!(number(cpu).parse(), Ok(record.cpu.0), "{line}");
    }
    let mut rest = fields;
    let mut compared = 0;
    for field in &class.fields {
        let Some(value) = class.value(class.field(&field.name).unwrap(), record) else { continue };
        let plain = field.name.strip_suffix("_context").unwrap_or(&field.name);
        let plain = plain.rsplit('.').next().unwrap_or(plain);
        let plain = plain.strip_prefix('_').filter(|_| plain.len() != field.name.len()).unwrap_or(plain);
        let key = format!(" {plain} = ");
        // What a variant turned out to be is printed in braces, without its name.
        let of_variant = field.name.rsplit_once('.').map(|(outer, _)| format!(" {outer} = {{ "));
        let key = if rest.contains(&key) { key } else { of_variant.unwrap_or(key) };
        let at = rest.find(&key).unwrap_or_else(|| panic!("no{key}in '{rest}' of {line}"));
        rest = &rest[at + key.len()..];
        assert!(same(&value, rest), "{}: {value} against '{rest}' of {line}", field.name);
        compared += 1;
    }
    compared
}

/// Lines of the oracle in our order: where times are equal, or traces have other offsets, it may order otherwise.
fn compare(ctf: &Ctf<'_>, oracle: &str, shared_clock: bool) -> Compared {
    assert_eq!(ctf.info().damage, vec![]);
    let mut lines = oracle.lines();
    let mut compared = Compared::default();
    let mut walk = ctf.events(Span::ALL);
    while let Some(item) = walk.next() {
        match item {
            Item::Damage(damage) => panic!("{damage}"),
            Item::Lost(loss) => compared.lost += loss.count.unwrap(),
            Item::Event(record) => {
                let line = lines.next().expect("babeltrace2 has as many events");
                compared.fields += compare_event(ctf, &record, line, shared_clock);
                compared.events += 1;
            }
        }
    }
    assert_eq!(lines.next(), None, "babeltrace2 has more events");
    compared
}

#[test]
fn compact_headers_with_wrapping_stamps_and_contexts_read_as_babeltrace2_reads_them() {
    let ctf = Ctf::open(&[little()]).unwrap();
    let compared = compare(&ctf, include_str!("data/ctf/little.txt"), true);
    assert_eq!((compared.events, compared.lost), (160, 14));
    assert!(compared.fields > 700, "{compared:?}");
    assert_eq!((ctf.info().prio_bias, ctf.info().cpus), (100, Some(2)));
}

fn little() -> TraceFiles<'static> {
    TraceFiles {
        name: "little".into(),
        metadata: include_bytes!("data/ctf/little/metadata"),
        streams: vec![
            ("channel_0".into(), include_bytes!("data/ctf/little/channel_0")),
            ("channel_1".into(), include_bytes!("data/ctf/little/channel_1")),
        ],
        ..TraceFiles::default()
    }
}

fn big() -> TraceFiles<'static> {
    TraceFiles {
        name: "big".into(),
        metadata: include_bytes!("data/ctf/big/metadata"),
        streams: vec![("stream".into(), include_bytes!("data/ctf/big/stream"))],
        ..TraceFiles::default()
    }
}

#[test]
fn big_endian_bit_fields_variants_and_floats_read_as_babeltrace2_reads_them() {
    let ctf = Ctf::open(&[big()]).unwrap();
    // Its clock counts microseconds: the oracle prints those, we nanoseconds.
    let oracle = include_str!("data/ctf/big.txt");
    let compared = compare(&ctf, oracle, false);
    assert_eq!(compared.events, 12);
    assert!(compared.fields == 174, "{compared:?}");
    let mut walk = ctf.events(Span::ALL);
    for line in oracle.lines() {
        let Some(Item::Event(record)) = walk.next() else { panic!() };
        let ticks: u64 = line[1..].split(']').next().unwrap().parse().unwrap();
        assert_eq!(record.at.0, ticks * 1000);
    }
}

#[test]
fn a_loss_is_put_where_the_stream_was_silent() {
    let ctf = Ctf::open(&[little()]).unwrap();
    let mut walk = ctf.events(Span::ALL);
    let mut losses = Vec::new();
    while let Some(item) = walk.next() {
        if let Item::Lost(loss) = item {
            losses.push(loss);
        }
    }
    assert_eq!(losses.len(), 2);
    for loss in losses {
        assert!(loss.before.since(loss.after.unwrap()).0 > 3_000_000_000);
        assert!(loss.inferred_within.is_some(), "the recorder did not say where");
    }
}

/// `../shared/traces` of a directory above, unpacked into a temporary directory; or a reason to skip.
fn unpacked(archive: &str) -> Result<(tempfile::TempDir, PathBuf), String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found =
        here.ancestors().map(|above| above.join("shared/traces").join(archive)).find(|path| path.exists());
    let archive = found.ok_or(format!("{archive} is not there (../shared/traces)"))?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let status = Command::new("tar").arg("xf").arg(&archive).arg("-C").arg(directory.path()).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err("tar cannot unpack it".into());
    }
    let path = directory.path().to_owned();
    Ok((directory, path))
}

/// Name of a directory; names and contents of its files.
type Directory = (String, Vec<(String, Vec<u8>)>);

/// All directories with a `metadata` file, with the contents of their files.
fn traces_below(directory: &Path, found: &mut Vec<Directory>) {
    let entries: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    if entries.iter().any(|path| path.ends_with("metadata")) {
        let file = |path: &PathBuf| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(path).unwrap())
        };
        let mut files: Vec<_> = entries.iter().filter(|path| path.is_file()).map(file).collect();
        files.sort();
        found.push((directory.display().to_string(), files));
    } else {
        entries.iter().filter(|path| path.is_dir()).for_each(|path| traces_below(path, found));
    }
}

/// Says so in a way that a passing test does not keep to itself.
fn skipped<T>(name: &str, reason: &str) -> Option<T> {
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {reason}");
    None
}

/// Old LTTng kernels traces in which a packet begins before the one before has ended: babeltrace2 stops there, we
/// read on and say so. Given one packet at a time, babeltrace2 has exactly our events.
#[test]
#[ignore = "two hundred thousand events: run with --include-ignored"]
fn behind_a_packet_whose_time_goes_back_are_the_events_that_babeltrace2_finds_packet_by_packet() {
    let name = "behind_a_packet_whose_time_goes_back";
    let (_keep, path) = match unpacked("public-ctf.tar.xz") {
        Ok(unpacked) => unpacked,
        Err(reason) => return skipped(name, &reason).unwrap_or_default(),
    };
    for (trace, events) in [("scp_dest", 85_729), ("scp_src", 110_771)] {
        let directory = path.join("public/tracecompass/synctraces").join(trace);
        let metadata = std::fs::read(directory.join("metadata")).unwrap();
        let stream = std::fs::read(directory.join("channel0_0")).unwrap();
        let streams = vec![("channel0_0".to_owned(), stream.as_slice())];
        let ctf = Ctf::open(&[TraceFiles {
            name: String::new(),
            metadata: &metadata,
            streams,
            ..TraceFiles::default()
        }])
        .unwrap();
        let (mut ours, mut backwards) = (Vec::new(), 0);
        let mut walk = ctf.events(Span::ALL);
        while let Some(item) = walk.next() {
            match item {
                Item::Event(record) => ours.push(ctf.class(&record).unwrap().full_name()),
                Item::Damage(damage) if damage.what.contains("time goes back") => backwards += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(ours.len() == events && backwards > 0, "{trace}: {} events, {backwards}", ours.len());
        let magic = 0xc1fc_1fc1_u32.to_le_bytes();
        let mut begins: Vec<usize> =
            (0..stream.len()).step_by(4096).filter(|&at| stream[at..].starts_with(&magic)).collect();
        begins.push(stream.len());
        let mut theirs = 0;
        for packet in begins.windows(2) {
            let single = tempfile::tempdir().unwrap();
            std::fs::write(single.path().join("metadata"), &metadata).unwrap();
            std::fs::write(single.path().join("channel0_0"), &stream[packet[0]..packet[1]]).unwrap();
            let mut oracle = Command::new("babeltrace2");
            oracle.args(["--clock-cycles", "--no-delta"]).arg(single.path());
            let Ok(output) = oracle.output() else {
                return skipped(name, "babeltrace2 is not installed").unwrap_or_default();
            };
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                let event = line.split_once(": {").and_then(|(head, _)| head.split(' ').next_back());
                assert_eq!(event, ours.get(theirs).map(String::as_str), "{trace}: event {theirs}: {line}");
                theirs += 1;
            }
        }
        assert_eq!(theirs, events, "{trace}");
    }
}

fn against_babeltrace2(name: &str, archive: &str, below: &str) -> Option<Compared> {
    let (_keep, path) = match unpacked(archive) {
        Ok(unpacked) => unpacked,
        Err(reason) => return skipped(name, &reason),
    };
    let path = path.join(below);
    let output = Command::new("babeltrace2").args(["--clock-cycles", "--no-delta"]).arg(&path).output();
    let Ok(output) = output else {
        return skipped(name, "babeltrace2 is not installed");
    };
    let mut files = Vec::new();
    traces_below(&path, &mut files);
    let inputs: Vec<TraceFiles<'_>> = files
        .iter()
        .map(|(name, files)| TraceFiles {
            name: name.clone(),
            metadata: &files.iter().find(|(name, _)| name == "metadata").unwrap().1,
            streams: files
                .iter()
                .filter(|(name, _)| name != "metadata")
                .map(|(name, bytes)| (name.clone(), bytes.as_slice()))
                .collect(),
            ..TraceFiles::default()
        })
        .collect();
    let ctf = Ctf::open(&inputs).unwrap();
    Some(compare(&ctf, &String::from_utf8_lossy(&output.stdout), true))
}

#[test]
fn a_preempt_rt_kernel_trace_of_lttng_equals_babeltrace2() {
    let name = "a_preempt_rt_kernel_trace_of_lttng_equals_babeltrace2";
    let Some(compared) = against_babeltrace2(name, "d_lost_events.tar.xz", ".") else { return };
    assert_eq!((compared.events, compared.lost), (3550, 5560));
}

#[test]
#[ignore = "a hundred thousand events: run with --include-ignored"]
fn large_and_old_lttng_and_perf_traces_equal_babeltrace2() {
    let name = "large_and_old_lttng_and_perf_traces_equal_babeltrace2";
    let cases = [
        ("a_kernel_cyclictest.tar.xz", ".", 98_755),
        ("f_ust_perpid.tar.xz", "f_ust_perpid/trace/kernel", 30_482),
        ("f_ust_perpid.tar.xz", "f_ust_perpid/trace/ust", 496),
        ("public-ctf.tar.xz", "public/tracecompass/perf-taskset2", 1500),
        ("public-ctf.tar.xz", "public/tracecompass/bug446190", 31_556),
        ("public-ctf.tar.xz", "public/babeltrace/multi-domains/ust", 4000),
        ("public-ctf.tar.xz", "public/babeltrace/lttng-tracefile-rotation/kernel", 12_305),
    ];
    for (archive, below, events) in cases {
        let Some(compared) = against_babeltrace2(name, archive, below) else { continue };
        assert_eq!(compared.events, events, "{below}");
        assert!(compared.fields >= events, "{below}: {compared:?}");
    }
}
