//! Selected threads that sleep throughout a recording.

use super::*;

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_sleeps_throughout_is_named_on_the_screen_too() {
    if !may_run("a_thread_that_sleeps_throughout_is_named_on_the_screen_too", lacks_bpf()) {
        return;
    }
    let mut sleeps = Command::new("sleep").arg("60").spawn().unwrap(); // it ends by itself, whatever fails here
    let some_time = "for i in $(seq 2000); do sleep 0.02; done";
    let mut works = Command::new("sh").args(["-c", some_time]).spawn().unwrap();
    let id = sleeps.id();
    let asleep = || fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    while !asleep().contains("(sleep) S ") {
        sleep(Duration::from_millis(5));
    }
    let on_one_line =
        |text: &[u8]| String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ");
    let told = |tasks: &str, more: &[&str]| {
        let ended = command(&["record", "-D", "1s", "--tasks", tasks]).args(more).output().unwrap();
        on_one_line(&[ended.stdout, ended.stderr].concat())
    };
    let named = format!("slept from beginning to end, so that no job of theirs is covered: sleep/{id}");
    let tasks = format!("pid:{id}");
    let screen = told(&tasks, &[]);
    assert_eq!(screen.matches(&named).count(), 1, "{screen}");
    assert!(told(&tasks, &["--json"]).contains(&named));
    let quiet = told(&tasks, &["-q"]);
    assert!(!quiet.contains("slept"), "{quiet}");
    // The file keeps it, for each view of it.
    let place = tempfile::tempdir().unwrap();
    let kept = place.path().to_str().unwrap();
    let said = told(&format!("{tasks},{}", works.id()), &["-q", "-o", kept]);
    let shown = command(&["report", "--text", kept]).output().unwrap();
    let shown = on_one_line(&shown.stdout);
    assert!(shown.contains(&named), "{shown} {said}");
    for child in [&mut sleeps, &mut works] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
