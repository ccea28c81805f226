//! `lathunt respond -o` and `lathunt merge --pair`: one measurement at both ends.

use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;

fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

fn read(path: &Path) -> Run {
    Run::from_json(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Ends as with Ctrl-C, which writes the run.
fn end(mut responder: Child) {
    // SAFETY: our own child, which was not waited for.
    assert_eq!(unsafe { libc::kill(responder.id() as libc::pid_t, libc::SIGINT) }, 0);
    let begun = Instant::now();
    while responder.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Both ends of a measurement over UDP in `place`.
fn measured(place: &Path, port: u16) -> (String, String) {
    let (boxed, responded) = (place.join("box"), place.join("there"));
    let names = (boxed.display().to_string(), responded.display().to_string());
    let channel = format!("udp:127.0.0.1:{port}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["respond", &channel, "-p", "0", "-q", "--delay", "3ms", "--worst", "64", "-o", &names.1]);
    let responder = command.spawn().unwrap();
    let all =
        ["box", &channel, "-p", "0", "-q", "-D", "400ms", "-i", "10ms", "--worst", "64", "-o", &names.0];
    let output = lathunt(&all);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    end(responder);
    names
}

#[test]
fn both_ends_are_joined_by_the_numbers_of_the_stimuli_and_strangers_are_not() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("both.lathunt.json");
    let shown = file.display().to_string();
    let (boxed, responded) = measured(place.path(), 47441);
    let output = lathunt(&["merge", "--pair", &boxed, &responded, "-q", "-o", &shown]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let run = read(&file);
    let sent = run.of(Quantity::Roundtrip).next().unwrap().counts.unwrap();
    assert!(
        sent.sent > 10 && sent.answered == sent.sent && run.losses.is_empty(),
        "{sent:?} {:?}",
        run.losses
    );
    let turnaround = run.of(Quantity::Turnaround).next().unwrap();
    assert_eq!(turnaround.histogram.count(), sent.sent);
    assert!(turnaround.histogram.min().unwrap().0 >= 3_000_000);
    // All are kept at both ends: each has met its own.
    assert!(run.peaks.iter().filter(|peak| peak.quantity == Quantity::Roundtrip).count() as u64 == sent.sent);
    for peak in run.peaks.iter().filter(|peak| peak.quantity == Quantity::Roundtrip) {
        let told = peak.sentence();
        assert!(told.contains("of it at the responder"), "{told}");
    }

    let elsewhere = tempfile::tempdir().unwrap();
    let (_, stranger) = measured(elsewhere.path(), 47442);
    let copy = std::fs::read_to_string(place.path().join("there/run.lathunt.json")).unwrap();
    let session = read(&place.path().join("there/run.lathunt.json")).series[0].session.clone().unwrap();
    let received = session.worst[0].received.0.to_string();
    let altered = elsewhere.path().join("altered.json");
    std::fs::write(&altered, copy.replace(&received, "12345")).unwrap();
    let altered = altered.display().to_string();
    for (arguments, says) in [
        (vec![boxed.as_str(), &stranger], "no session in common"),
        (vec![&responded, &boxed], "name that of the box first"),
        (vec![&boxed, &altered], "was received at"),
        (vec![&boxed, &responded, &responded], "joins two runs"),
    ] {
        let output = lathunt(&[&["merge", "--pair", "-o", &shown][..], &arguments].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says) && stderr.lines().count() == 1, "{arguments:?}: {stderr}");
    }
    let output = lathunt(&["respond", "pipe", "--record"]);
    assert!(output.status.code() == Some(1) && String::from_utf8_lossy(&output.stderr).contains("--output"));
}
