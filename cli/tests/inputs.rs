//! Files named as input that are no files: pipes are waited for with a line, everything else is refused with a line.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const BINARY: &str = env!("CARGO_BIN_EXE_lathunt");

/// Commands that read the file FILE, with the name of the input that makes sense to each.
const READING: [(&str, &str); 16] = [
    ("report FILE --text", "run.json"),
    ("plot FILE -o -", "run.json"),
    ("compare run.json FILE", "run.json"),
    ("merge run.json FILE -o merged.json --force", "other.json"),
    ("bound FILE", "run.json"),
    ("bound --values FILE", "values"),
    ("import FILE -o imported.json --force", "text"),
    ("check --root FILE", "snapshot.json"),
    ("check --kconfig FILE", "kconfig"),
    ("tasks analyse FILE", "set.json"),
    ("tasks convert FILE", "set.json"),
    ("tasks run FILE -D 100ms --scheduler other", "set.json"),
    ("tasks compare FILE -D 100ms", "set.json"),
    ("explain FILE --summary", "flight.bin"),
    ("history --database FILE", ""),
    ("munin --database FILE", ""),
];

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let line = |max: u32| {
        format!("T: 0 (  100) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    2 Max:      {max}\n")
    };
    for (name, max) in [("other.json", 20), ("run.json", 10)] {
        fs::write(at("text"), line(max)).unwrap();
        assert!(run(&format!("import text -o {name}"), place.path()).status.success());
    }
    fs::write(at("text"), line(30)).unwrap();
    let values: String = (0..500).map(|n| format!("{}\n", n * 7919 % 101)).collect();
    fs::write(at("values"), values).unwrap();
    fs::write(at("kconfig"), "CONFIG_HZ=250\nCONFIG_PREEMPT_RT=y\n").unwrap();
    let task =
        "\"a\": {\"policy\": \"SCHED_OTHER\", \"run\": 100, \"timer\": {\"ref\": \"a\", \"period\": 10000}}";
    fs::write(at("set.json"), format!("{{\"tasks\": {{{task}}}, \"global\": {{\"duration\": 1}}}}")).unwrap();
    assert!(run("check --snapshot snapshot.json -D 0s", place.path()).status.success());
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/data"));
    fs::copy(data.join("flight/small.bin"), at("flight.bin")).unwrap();
    place
}

fn command(words: &str, directory: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command.args(words.split(' ')).current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(words: &str, directory: &Path) -> Output {
    command(words, directory).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn sockets_and_devices_are_refused_with_one_line_and_nothing_waits() {
    let place = place();
    let _socket = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
    for (words, _) in READING {
        for (name, named) in [("socket", "socket"), ("/dev/zero", "device"), ("/dev/null", "device")] {
            let begin = Instant::now();
            let output = run(&words.replace("FILE", name), place.path());
            let text = said(&output);
            assert_eq!(output.status.code(), Some(1), "{words} {name}: {text}");
            let is_refused = text.contains(&format!("a {named}")) || text.contains("not a regular file");
            assert!(is_refused && text.lines().count() == 1, "{words} {name}: {text}");
            assert!(begin.elapsed() < Duration::from_secs(5), "{words} {name}");
        }
    }
}

#[test]
fn a_pipe_without_a_writer_is_waited_for_with_a_line_and_read_once_there_is_one() {
    let place = place();
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (words, input) in READING {
        let mut child = command(&words.replace("FILE", "fifo"), place.path()).spawn().unwrap();
        if input.is_empty() {
            let output = child.wait_with_output().unwrap();
            assert!(said(&output).contains("not a regular file"), "{words}: {}", said(&output));
            continue;
        }
        let mut error = child.stderr.take().unwrap();
        let (mut text, mut byte) = (Vec::new(), [0]);
        while !String::from_utf8_lossy(&text).contains("waiting for data from fifo\n") {
            assert_eq!(error.read(&mut byte).unwrap(), 1, "{words}: {}", String::from_utf8_lossy(&text));
            text.push(byte[0]);
        }
        let mut writer = File::options().write(true).open(&fifo).unwrap();
        writer.write_all(&fs::read(place.path().join(input)).unwrap()).unwrap();
        drop(writer);
        let output = child.wait_with_output().unwrap();
        error.read_to_end(&mut text).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{words}: {text}");
    }
}

#[test]
fn stdin_is_read_under_its_names() {
    let place = place();
    for (words, input) in READING.into_iter().filter(|(_, input)| !input.is_empty()) {
        for name in ["-", "/dev/stdin"] {
            let file = File::open(place.path().join(input)).unwrap();
            let mut piped =
                Command::new("cat").arg(place.path().join(input)).stdout(Stdio::piped()).spawn().unwrap();
            let pipe = piped.stdout.take().unwrap();
            for from in [Stdio::from(file), Stdio::from(pipe)] {
                let output =
                    command(&words.replace("FILE", name), place.path()).stdin(from).output().unwrap();
                assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{words} {name}: {}", said(&output));
            }
            piped.wait().unwrap();
        }
    }
}

#[test]
fn a_pipe_named_as_output_gets_the_result_even_if_its_reader_comes_late() {
    let place = place();
    let fifo = place.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // A reader from the start, which must not see the end before the result; then one that comes later.
    for words in ["cyclic -D 300ms -p 0 -q -o fifo", "report run.json -o fifo"] {
        let reader = Command::new("cat").arg(&fifo).stdout(Stdio::piped()).spawn().unwrap();
        let output = run(words, place.path());
        assert!(matches!(output.status.code(), Some(0 | 3)), "{words}: {}", said(&output));
        assert!(reader.wait_with_output().unwrap().stdout.len() > 500, "{words}");
    }
    let mut child = command("report run.json -o fifo", place.path()).spawn().unwrap();
    let mut line = String::new();
    let mut error = std::io::BufReader::new(child.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut error, &mut line).unwrap();
    assert_eq!(line, "lathunt: waiting for a reader of fifo\n");
    assert!(fs::read(&fifo).unwrap().len() > 500 && child.wait().unwrap().success());
}
