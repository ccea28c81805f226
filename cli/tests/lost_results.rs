//! A result is never lost silently: stdout that is closed or full, and a disk that is full.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

const BINARY: &str = env!("CARGO_BIN_EXE_lathunt");

/// Runs `lathunt WORDS` by a shell, with a redirection.
fn shell(words: &str, redirection: &str, directory: &Path) -> Output {
    let script = format!("exec {BINARY} {words} {redirection}");
    Command::new("sh").args(["-c", &script]).current_dir(directory).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Two runs, a task set and a trace.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, max) in [("a", 10), ("b", 20)] {
        let line =
            format!("T: 0 (  100) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    2 Max:      {max}\n");
        fs::write(place.path().join("text"), line).unwrap();
        let imported = shell(&format!("import text -o {name}.json"), "", place.path());
        assert!(imported.status.success(), "{}", said(&imported));
    }
    let task = |name: &str| {
        format!("\"{name}\": {{\"policy\": \"SCHED_OTHER\", \"run\": 100, \"timer\": {{\"ref\": \"{name}\", \"period\": 10000}}}}")
    };
    let set = format!("{{\"tasks\": {{{}, {}}}, \"global\": {{\"duration\": 1}}}}", task("one"), task("two"));
    fs::write(place.path().join("set.json"), set).unwrap();
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/data"));
    fs::copy(data.join("flight/small.bin"), place.path().join("flight.bin")).unwrap();
    place
}

/// Commands that print a result, and need no privileges.
const PRINTING: [&str; 21] = [
    "--help",
    "--version",
    "explain --help",
    "completions bash",
    "check -D 0s",
    "check -D 0s --json",
    "cyclic -D 200ms -p 0 --json",
    "cyclic -D 200ms -p 0",
    "report a.json --text",
    "report a.json --junit -",
    "plot a.json -o -",
    "compare a.json b.json",
    "compare a.json b.json --plot -",
    "merge a.json b.json -o merged.json --force",
    "bound --needed",
    "explain flight.bin --summary",
    "explain flight.bin --wakeups --json",
    "tasks analyse set.json",
    "tasks run set.json --scheduler other --json",
    "tasks generate",
    "tasks convert set.json",
];

#[test]
fn a_result_that_stdout_cannot_take_is_an_error_of_every_command() {
    let place = place();
    for words in PRINTING {
        let taken = shell(words, ">/dev/null", place.path());
        assert!(!said(&taken).contains("stdout"), "{words}: {}", said(&taken));
        for redirection in [">&-", ">/dev/full", "1</dev/null"] {
            let output = shell(words, redirection, place.path());
            let said = said(&output);
            assert!(
                output.status.code() == Some(1) && said.contains("cannot write to stdout"),
                "{words} {redirection}: {:?} {said}",
                output.status
            );
        }
    }
    let output = shell("report a.json -o /dev/stdout", ">&-", place.path());
    assert!(output.status.code() == Some(1), "{}", said(&output));
}

#[test]
fn what_is_written_to_files_is_there_even_if_stdout_is_closed() {
    let place = place();
    for (words, file) in [
        ("cyclic -D 200ms -p 0 -o c.json", "c.json"),
        ("tasks run set.json --scheduler other -o run", "run/run.lathunt.json"),
        ("bound a.json b.json -o bound", "bound/bound.json"),
        ("box --pair pipe -D 200ms -o box.json", "box.json"),
    ] {
        let output = shell(words, ">&-", place.path());
        assert_eq!(output.status.code(), Some(1), "{words}: {}", said(&output));
        assert!(place.path().join(file).exists(), "{words}: {}", said(&output));
    }
}

/// Runs lathunt with files of at most `blocks` of 512 bytes: a full disk.
fn limited(blocks: u64, words: &str, directory: &Path) -> Output {
    let script = format!("ulimit -f {blocks}; exec {BINARY} {words}");
    Command::new("sh").args(["-c", &script]).current_dir(directory).output().unwrap()
}

#[test]
fn a_comparison_on_a_full_disk_runs_every_scheduler_and_prints_what_it_cannot_save() {
    let place = place();
    let output = limited(0, "tasks compare set.json -D 200ms -o full", place.path());
    let (printed, said) = (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output));
    assert_eq!(output.status.code(), Some(1), "{said}");
    for scheduler in ["other", "fiber-fp", "fiber-edf"] {
        assert!(printed.lines().next().is_some_and(|head| head.contains(scheduler)), "{printed}{said}");
        let failure = format!("cannot write full/{scheduler}.lathunt.json");
        assert!(said.matches(&failure).count() == 2, "{said}");
    }
    assert!(printed.contains("one") && said.contains("the comparison continues"), "{printed}{said}");
    assert!(!place.path().join("full").exists(), "an empty directory is left: {said}");
}

/// A file system without a free block; the results of lathunt's WORDS go to `full/`.
fn on_full_disk(words: &str, directory: &Path) -> Output {
    let script = format!(
        "mkdir -p full && mount -t tmpfs -o size=64k none full && dd if=/dev/zero of=full/fill bs=4k 2>/dev/null; \
         {BINARY} {words}; code=$?; find full -mindepth 1 ! -name fill >left; exit $code"
    );
    Command::new("unshare").args(["-m", "sh", "-c", &script]).current_dir(directory).output().unwrap()
}

#[test]
#[ignore = "needs root"]
fn a_full_disk_is_named_in_one_line_by_every_writer_and_nothing_is_left_on_it() {
    let name = "a_full_disk_is_named_in_one_line_by_every_writer_and_nothing_is_left_on_it";
    if !lathunt_host::testing::may_run(name, lathunt_host::testing::lacks_root()) {
        return;
    }
    let place = place();
    for words in [
        "import text -o full/x.json",
        "merge a.json b.json -o full/x.json",
        "report a.json -o full/x.html",
        "report a.json --text --junit full/x.xml",
        "plot a.json -o full/x.svg",
        "plot a.json -o full/x.html",
        "compare a.json b.json --plot full/x.svg",
        "bound a.json -o full/x",
        "explain flight.bin --wakeups --html full/x.html",
        "explain flight.bin --wakeups --perfetto full/x",
        "explain flight.bin --ctf full/x",
        "tasks run set.json --scheduler other -D 200ms -o full/x",
        "tasks run set.json --scheduler other -D 200ms --log full/x",
        "tasks run set.json --scheduler fiber-fp -D 200ms --trace full/x",
        "tasks generate -o full/x",
        "tasks convert set.json -o full/x",
        "check -D 0s --snapshot full/x",
        "cyclic -D 200ms -p 0 -o full/x",
        "npt -n 100 -p 0 -o full/x",
        "npt -n 100 -p 0 --gaps full/x",
        "box --pair pipe -D 200ms -o full/x",
        "trace --events min -D 200ms -o full/x",
        "monitor --listen off --database full/x.sqlite",
    ] {
        let output = on_full_disk(words, place.path());
        let said = said(&output);
        let lines: Vec<&str> =
            said.lines().filter(|line| line.contains("No space left") || line.contains("is full")).collect();
        assert_eq!((output.status.code(), lines.len()), (Some(1), 1), "{words}: {said}");
        assert!(lines[0].contains("free some space"), "{words}: {said}");
        assert_eq!(fs::read_to_string(place.path().join("left")).unwrap(), "", "{words}: {said}");
    }
}

#[test]
fn an_earlier_run_survives_a_write_that_fails() {
    let place = place();
    let before = fs::read(place.path().join("a.json")).unwrap();
    fs::copy(place.path().join("b.json"), place.path().join("a.json.old")).unwrap();
    let oldest = fs::read(place.path().join("b.json")).unwrap();
    for words in
        ["import text -o a.json", "merge a.json b.json -o b.json --force", "cyclic -D 200ms -p 0 -o a.json"]
    {
        let output = limited(0, words, place.path());
        assert_eq!(output.status.code(), Some(1), "{words}: {}", said(&output));
        let there = ["a.json", "a.json.old"].map(|name| fs::read(place.path().join(name)).unwrap());
        assert!(
            there == [before.clone(), oldest.clone()],
            "{words}: an earlier run is lost: {}",
            said(&output)
        );
        let left = fs::read_dir(place.path()).unwrap().flatten();
        let left: Vec<_> =
            left.filter(|entry| entry.file_name().to_string_lossy().contains(".part")).collect();
        assert!(left.is_empty(), "{words}: {left:?}");
    }
}

#[test]
fn an_earlier_run_stays_in_its_place_until_a_newer_one_has_a_sample() {
    let place = place();
    let before = fs::read(place.path().join("a.json")).unwrap();
    let output = shell("cyclic -D 100ms -i 10s -p 0 --no-mlock -o a.json", "", place.path());
    assert!(said(&output).contains("no sample was taken; the earlier run a.json stays"), "{}", said(&output));
    assert!(
        fs::read(place.path().join("a.json")).unwrap() == before && !place.path().join("a.json.old").exists()
    );
    shell("cyclic -D 100ms -p 0 --no-mlock -o a.json", "", place.path());
    assert_eq!(fs::read(place.path().join("a.json.old")).unwrap(), before);
}

#[test]
fn a_directory_that_takes_no_files_is_told_from_one_that_does_not_exist() {
    for (words, expected) in [
        ("cyclic -D 100ms -p 0 -o /proc/x", "its directory takes no files: name another place"),
        ("cyclic -D 100ms -p 0 -o /nonexistent/x", "the directory does not exist"),
    ] {
        let output = shell(words, "", place().path());
        assert_eq!((output.status.code(), said(&output).lines().count()), (Some(1), 1), "{}", said(&output));
        assert!(said(&output).contains(expected), "{}", said(&output));
    }
}

#[test]
#[ignore = "needs root"]
fn a_trace_of_the_kernel_on_a_full_disk_stays_readable_or_leaves_nothing() {
    let name = "a_trace_of_the_kernel_on_a_full_disk_stays_readable_or_leaves_nothing";
    if !lathunt_host::testing::may_run(name, lathunt_host::testing::lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let output = limited(0, "trace --events min -D 300ms -o none", place.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("no event is kept; free some space"), "{}", said(&output));
    assert!(!place.path().join("none").exists(), "{}", said(&output));
    // Room for the description and a second of events.
    let whole = shell("trace --events full -D 200ms -o whole", "", place.path());
    assert!(whole.status.success(), "{}", said(&whole));
    let size = fs::metadata(place.path().join("whole/trace.dat")).unwrap().len() + (1 << 20);
    let script = format!(
        "mkdir small && mount -t tmpfs -o size={size} none small && \
         {BINARY} trace --events full -o small/t -- sh -c 'i=0; while [ $i -lt 3000 ]; do /bin/true; i=$((i+1)); done; echo ended'; \
         echo code $?; ls small/t; {BINARY} explain small/t --summary"
    );
    let output =
        Command::new("unshare").args(["-m", "sh", "-c", &script]).current_dir(place.path()).output().unwrap();
    let (printed, said) = (String::from_utf8_lossy(&output.stdout).into_owned(), said(&output));
    assert!(printed.contains("ended\n") && printed.contains("code 1\n"), "{printed}{said}");
    assert!(said.contains("recording of the kernel ended early"), "{said}");
    assert!(
        said.contains("`lathunt explain small/t` reads the events before that; free some space"),
        "{said}"
    );
    assert!(!printed.contains("part") && printed.contains("events in"), "{printed}{said}");
    assert!(printed.contains("did not come to its end"), "{printed}{said}");
}

#[test]
#[ignore = "needs root"]
fn a_command_that_does_not_start_leaves_no_file_and_the_limit_is_named() {
    let name = "a_command_that_does_not_start_leaves_no_file_and_the_limit_is_named";
    if !lathunt_host::testing::may_run(name, lathunt_host::testing::lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("script"), "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(place.path().join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    for (program, expected) in [
        ("/etc/passwd", "it is not a program, or this user may not run it"),
        ("./script", "no such program, or the interpreter in its first line is missing"),
    ] {
        let output = shell(&format!("trace --events min -o t -- {program}"), "", place.path());
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{program}: {said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{program}: {said}");
        assert!(!place.path().join("t").exists(), "{program}: {said}");
    }
    // The pages of the second CPU cannot be set aside: those of the first one are removed.
    fs::create_dir_all(place.path().join("rings/trace.dat.cpu1.partial/not-empty")).unwrap();
    fs::write(place.path().join("rings/trace.dat.cpu1"), "").unwrap();
    if Path::new("/sys/devices/system/cpu/cpu1").exists() {
        let output = shell("trace --events min -D 100ms -o rings", "", place.path());
        assert_eq!((output.status.code(), said(&output).lines().count()), (Some(1), 1), "{}", said(&output));
        assert!(!place.path().join("rings/trace.dat.cpu0").exists(), "{}", said(&output));
    }
    // Two processes of this user: lathunt and its consumer.
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let limited = "setpriv --reuid 65531 --regid 65531 --clear-groups prlimit --nproc=2";
    let script = format!("cp {BINARY} ./lathunt && exec {limited} ./lathunt trace --user -o t -- sleep 9");
    let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot start sleep: ") && said.contains("(ulimit -u, pids.max)"), "{said}");
    assert!(said.lines().count() == 1 && !place.path().join("t").exists(), "{said}");
}

#[test]
#[ignore = "needs root"]
fn the_kernels_reason_for_a_database_that_cannot_be_written_is_named() {
    let name = "the_kernels_reason_for_a_database_that_cannot_be_written_is_named";
    if !lathunt_host::testing::may_run(name, lathunt_host::testing::lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    // As with a disk quota (EDQUOT), SQLite itself says "disk I/O error" only.
    let output = limited(8, "monitor --window 1s --listen off --database m.sqlite", place.path());
    let said = said(&output);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("m.sqlite: File too large"), "{said}");
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "{said}");
}

/// The status of a process, once it catches SIGPWR: it can be stopped from now on.
fn wait_until_it_catches(pid: u32) {
    for _ in 0..1_000 {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if caught & (1 << (libc::SIGPWR - 1)) != 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("process {pid} does not catch SIGPWR");
}

#[test]
fn every_signal_that_would_kill_ends_a_measurement_with_its_results_and_is_named() {
    let place = place();
    let cyclic = "cyclic -D 60s -p 0 -q";
    let commands = [
        (cyclic, libc::SIGHUP, "SIGHUP"),
        (cyclic, libc::SIGQUIT, "SIGQUIT"),
        (cyclic, libc::SIGALRM, "SIGALRM"),
        (cyclic, libc::SIGVTALRM, "SIGVTALRM"),
        (cyclic, libc::SIGPROF, "SIGPROF"),
        (cyclic, libc::SIGXCPU, "SIGXCPU"),
        ("cyclic -D 60s -q", libc::SIGXCPU, "SIGXCPU"),
        ("tasks run set.json -D 60s --scheduler other", libc::SIGPWR, "SIGPWR"),
        ("box --pair pipe -D 60s", libc::SIGQUIT, "SIGQUIT"),
    ];
    let started: Vec<_> = commands
        .iter()
        .enumerate()
        .map(|(n, (words, signal, name))| {
            let mut command = Command::new(BINARY);
            command.args(words.split(' ')).args(["-o", &format!("stopped-{n}")]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            // Ignored signals are inherited: a shell's job in the background ignores SIGQUIT, one of nohup SIGHUP.
            let signal = *signal;
            // SAFETY: signal() is safe in a child between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    libc::signal(signal, libc::SIG_DFL);
                    Ok(())
                })
            };
            (n, *words, signal, *name, command.current_dir(place.path()).spawn().unwrap())
        })
        .collect();
    for (.., child) in &started {
        wait_until_it_catches(child.id());
    }
    std::thread::sleep(std::time::Duration::from_millis(500));
    for (_, _, signal, _, child) in &started {
        // SAFETY: no pointers; our child, not yet waited for.
        unsafe { libc::kill(child.id().cast_signed(), *signal) };
    }
    for (n, words, _, name, child) in started {
        let output = child.wait_with_output().unwrap();
        let text = format!("{words}, {name}: {} {}", output.status, said(&output));
        assert!(matches!(output.status.code(), Some(0..=3)), "{text}");
        let run = [format!("stopped-{n}"), format!("stopped-{n}/run.lathunt.json")];
        let run = run.iter().find_map(|file| fs::read_to_string(place.path().join(file)).ok());
        let run = run.unwrap_or_else(|| panic!("no run: {text}"));
        assert!(run.contains("stopped after") && run.contains(&format!("({name})")), "{text}");
        // A limit is blamed only if it was reached: `cyclic` has one of real-time threads, and SIGXCPU came from here.
        assert!(!run.contains("RLIMIT_RTTIME") && !run.contains("ulimit -t"), "{text}");
    }
}

#[test]
fn a_limit_of_cpu_time_ends_a_measurement_with_its_results() {
    let place = place();
    for (limit, file) in [("-S -t 1", "soft"), ("-t 2", "hard")] {
        let script = format!("ulimit {limit}; exec {BINARY} npt -n 1000000000000 -p 0 -q -o {file}");
        let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
        assert!(matches!(output.status.code(), Some(0..=3)), "{limit}: {} {}", output.status, said(&output));
        let run = [file.to_owned(), format!("{file}/run.lathunt.json")];
        let run = run.iter().find_map(|file| fs::read_to_string(place.path().join(file)).ok());
        let run = run.unwrap_or_else(|| panic!("{limit}: no run: {}", said(&output)));
        assert!(run.contains("(SIGXCPU: the limit of CPU time, ulimit -t)"), "{limit}: {}", said(&output));
    }
}
