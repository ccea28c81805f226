use std::fs;
use std::process::{Command, Stdio};

use super::*;

fn rules(timeout: Duration) -> Rules {
    let cpus = crate::sched::affinity().unwrap();
    Rules { cpus, timeout, user: None }
}

fn acted(attendant: &mut ActionProcess, json: &str) -> Done {
    attendant.act(&Case { json, environment: &[("LATHUNT_LIMIT_NS", "7".to_owned())] }).unwrap();
    attendant.wait().unwrap()
}

#[test]
fn a_command_gets_the_case_and_its_end_is_told() {
    let place = tempfile::tempdir().unwrap();
    let seen = place.path().join("seen");
    let command = format!("cat > {0}; echo \" $LATHUNT_LIMIT_NS\" >> {0}; exit 3", seen.display());
    let mut attendant =
        ActionProcess::start(vec![Action::Command(command)], rules(Duration::from_secs(20))).unwrap();
    // More than a pipe holds.
    let json = format!("\"{}\"", "x".repeat(300_000));
    let done = acted(&mut attendant, &json);
    assert!(done.did[0].ends_with(": exit status 3"), "{done:?}");
    assert!(done.begin < done.end && !attendant.is_busy());
    assert_eq!(fs::read_to_string(&seen).unwrap(), json + " 7\n");
}

#[test]
fn what_takes_too_long_is_killed_with_all_that_it_started() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pids");
    let command =
        format!("setsid sleep 77 & echo $! > {0}; sleep 78 & echo $! >> {0}; sleep 79", file.display());
    let mut attendant =
        ActionProcess::start(vec![Action::Command(command)], rules(Duration::from_millis(400))).unwrap();
    let done = acted(&mut attendant, "{}");
    assert!(done.did[0].contains("killed: it took longer than 400.000 ms"), "{done:?}");
    let pids = fs::read_to_string(&file).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        assert_ne!(comm.trim_end(), "sleep", "{pid} is left");
    }
}

#[test]
fn a_command_that_runs_when_the_measurement_is_over_is_killed() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("pid");
    let command = format!("echo $$ > {}; sleep 80", file.display());
    let mut attendant =
        ActionProcess::start(vec![Action::Command(command)], rules(Duration::from_secs(60))).unwrap();
    attendant.act(&Case { json: "{}", environment: &[] }).unwrap();
    let pid = || fs::read_to_string(&file).unwrap_or_default().trim().to_owned();
    let begun = Instant::now();
    while pid().is_empty() && begun.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(attendant.is_busy() && attendant.done().is_none() && !pid().is_empty());
    drop(attendant);
    assert!(!fs::exists(format!("/proc/{}", pid())).unwrap());
}

#[test]
fn nothing_of_a_command_is_left_when_the_process_that_acts_or_its_guard_is_killed() {
    let place = tempfile::tempdir().unwrap();
    for kills_guard in [false, true] {
        let file = place.path().join(format!("pids-{kills_guard}"));
        let command = format!(
            "setsid sh -c 'sleep 83 & sleep 84' & echo $! > {0}; sleep 85 & echo $! >> {0}; wait",
            file.display()
        );
        let mut attendant =
            ActionProcess::start(vec![Action::Command(command)], rules(Duration::from_secs(60))).unwrap();
        attendant.act(&Case { json: "{}", environment: &[] }).unwrap();
        let left = || {
            let pids = fs::read_to_string(&file).unwrap_or_default();
            let alive = |pid: &&str| fs::exists(format!("/proc/{pid}")).unwrap();
            pids.lines().filter(alive).count()
        };
        let await_it = |count: usize| {
            let begun = Instant::now();
            while left() != count {
                assert!(begun.elapsed() < Duration::from_secs(20), "{} are left", left());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        await_it(2);
        let killed = if kills_guard { attendant.guard } else { attendant.pid };
        // SAFETY: a process of ours that lives.
        unsafe { libc::kill(killed, libc::SIGKILL) };
        await_it(0);
        let did = attendant.wait().unwrap().did;
        assert!(did[0].contains("killed"), "{did:?}");
    }
}

#[test]
fn hundreds_of_processes_of_a_command_end_with_it_at_once() {
    let place = tempfile::tempdir().unwrap();
    let started = place.path().join("started");
    let command =
        format!("n=0; while [ $n -lt 600 ]; do sleep 88 & n=$((n+1)); done; : > {}; wait", started.display());
    let mut attendant =
        ActionProcess::start(vec![Action::Command(command)], rules(Duration::from_secs(60))).unwrap();
    attendant.act(&Case { json: "{}", environment: &[] }).unwrap();
    let begun = Instant::now();
    while !started.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    let (guard, begun) = (attendant.guard, Instant::now());
    drop(attendant);
    // Dropped, it waits for some seconds only.
    assert!(!fs::exists(format!("/proc/{guard}")).unwrap(), "not over after {:?}", begun.elapsed());
}

#[test]
#[ignore = "root: run by make test"]
fn a_command_of_another_user_gets_neither_the_environment_nor_the_descriptors_of_root() {
    use std::os::unix::fs::PermissionsExt;
    let no_root = (crate::trusted::me() != 0).then_some("needs root");
    if !crate::testing::may_run("a_command_of_another_user_gets_neither", no_root) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let seen = place.path().join("seen");
    let command = format!(
        "{{ id -u; env; for fd in /proc/$$/fd/*; do echo fd $(readlink $fd); done; }} > {} 2>&1",
        seen.display()
    );
    let user = User::of_command(Some("65534")).unwrap();
    assert!(user.is_some() && std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let mut attendant = ActionProcess::start(
        vec![Action::Command(command)],
        Rules { user, ..rules(Duration::from_secs(20)) },
    )
    .unwrap();
    let done = acted(&mut attendant, "{}");
    assert!(done.did[0].ends_with(": exit status 0"), "{done:?}");
    let seen = fs::read_to_string(&seen).unwrap();
    assert!(seen.starts_with("65534\n") && seen.contains("\nPATH=") && seen.contains("LATHUNT_LIMIT_NS=7"));
    assert!(!seen.contains("CARGO") && !seen.contains("SUDO"), "{seen}");
    let others = seen.lines().filter_map(|line| line.strip_prefix("fd "));
    let others =
        others.filter(|fd| !fd.contains("seen") && !fd.contains("memfd:case") && !fd.contains("pipe:"));
    // The shell keeps a copy of what it redirects.
    assert_eq!(others.count(), 0, "{seen}");
}

#[test]
fn a_signal_reaches_the_process_that_was_named() {
    let mut sleep = Command::new("sleep").arg("81").stdin(Stdio::null()).spawn().unwrap();
    let pid = sleep.id();
    let refused =
        |text: String| Target::parse(&text).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused(pid.to_string()).contains("does not handle SIGUSR1"));
    for (text, why) in [
        ("1", "above 1"),
        ("-7", "above 1"),
        ("0", "above 1"),
        ("x", "above 1"),
        ("4194999", "no process"),
        ("2:TERM", "kernel thread"),
        (&format!("{pid}:NONE"), "no such signal"),
        (&std::process::id().to_string(), "this process"),
    ] {
        assert!(refused(text.to_owned()).contains(why), "{text}: {}", refused(text.to_owned()));
    }
    let target = Target::parse(&format!("{pid}:SIGTERM")).unwrap();
    let mut attendant =
        ActionProcess::start(vec![Action::Signal(target)], rules(Duration::from_secs(5))).unwrap();
    assert_eq!(acted(&mut attendant, "{}").did, [format!("SIGTERM to process {pid}: sent")]);
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(sleep.wait().unwrap().signal(), Some(libc::SIGTERM));
    let again = acted(&mut attendant, "{}");
    assert!(again.did[0].contains("No such process"), "{again:?}");
}

#[test]
fn an_attendant_that_was_killed_is_noticed() {
    let mut attendant =
        ActionProcess::start(vec![Action::Command("sleep 82".to_owned())], rules(Duration::from_secs(5)))
            .unwrap();
    // SAFETY: a child of ours that was not waited for.
    unsafe { libc::kill(attendant.pid, libc::SIGKILL) };
    std::thread::sleep(Duration::from_millis(50));
    let case = Case { json: "{}", environment: &[] };
    match attendant.act(&case) {
        Err(error) => assert!(error.to_string().contains("was killed"), "{error}"),
        Ok(()) => assert!(attendant.wait().unwrap().did[0].contains("was killed")),
    }
    assert!(!attendant.is_busy());
}
