//! Selected threads that sleep throughout a recording.

use super::*;

#[test]
#[ignore = "root: run by make test"]
fn a_thread_that_sleeps_throughout_is_named_on_the_screen_too() {
    if !may_run("a_thread_that_sleeps_throughout_is_named_on_the_screen_too", lacks_bpf()) {
        return;
    }
    let mut sleeps = Command::new("sleep").arg("20").spawn().unwrap(); // it ends by itself, whatever fails here
    let id = sleeps.id();
    let asleep = || fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    while !asleep().contains("(sleep) S ") {
        sleep(Duration::from_millis(5));
    }
    let tasks = format!("pid:{id}");
    let told = |more: &[&str]| {
        let ended = command(&["record", "-D", "1s", "--tasks", &tasks]).args(more).output().unwrap();
        said(&ended)
    };
    let named = format!("slept from beginning to end, so that no job of theirs is covered: sleep/{id}");
    let screen = told(&[]);
    assert!(screen.contains(&named), "{screen}");
    let quiet = told(&["-q"]);
    assert!(!quiet.contains("slept"), "{quiet}");
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
}
