//! `lathunt box --record`: the cause of a late answer is named with its size.

mod responder;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::sched::{self, Policy};
use lathunt_host::testing::{lacks_bpf, may_run};
use responder::Responder;

/// The worst case of a measurement, while `meanwhile` goes on.
fn worst(directory: &Path, arguments: &[&str], mut meanwhile: impl FnMut()) -> Peak {
    let shown = directory.display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["box", "-q", "-D", "1500ms", "--record", "--worst", "3", "-o", &shown]).args(arguments);
    let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let code = loop {
        meanwhile();
        if let Some(status) = running.try_wait().unwrap() {
            break status.code();
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
    };
    assert_eq!(code, Some(0));
    let run = Run::from_json(&std::fs::read_to_string(directory.join("run.lathunt.json")).unwrap()).unwrap();
    run.peaks.into_iter().next().unwrap()
}

/// Time of the leaves whose label has this in it.
fn of(peak: &Peak, label: &str) -> Ns {
    let explanation = peak.explanation.as_ref().unwrap_or_else(|| panic!("{:?}", peak.no_evidence));
    assert!(explanation.tree.adds_up());
    assert_eq!(explanation.tree.total_explained() + explanation.unexplained_ns, peak.total_ns);
    explanation
        .tree
        .leaves()
        .iter()
        .filter(|leaf| leaf.label.contains(label))
        .map(|leaf| leaf.duration_ns)
        .sum()
}

/// Takes CPU 0 for 20 ms every 400 ms, for a minute at most: until the measurement is over, which may begin late.
fn hog_until(over: &AtomicBool) {
    // SAFETY: a string that ends with a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"test-hog".as_ptr()) };
    sched::pin(Cpu(0)).unwrap();
    sched::set_policy(Policy::Fifo, 99).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !over.load(Ordering::Relaxed) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(400));
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {}
    }
}

fn within(seen: Ns, injected: Ns) -> bool {
    seen.0.abs_diff(injected.0) <= injected.0 / 20
}

#[test]
#[ignore = "needs root"]
fn a_hog_on_the_responders_cpu_a_delay_and_a_program_that_computes_are_named_with_their_sizes() {
    let name = "a_hog_on_the_responders_cpu_a_delay_and_a_program_that_computes_are_named_with_their_sizes";
    if !may_run(name, lacks_bpf())
        || !may_run(
            name,
            (std::thread::available_parallelism().unwrap().get() < 2).then_some("needs two CPUs"),
        )
    {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let channel = "udp:127.0.0.1:47431";
    let twenty = Ns::from_ms(20);
    // The host may take a CPU meanwhile: then once more.
    let hogged = (0..3).map(|_| {
        let _responder = Responder::start(&["-c", "0", channel]);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let hog = scope.spawn(|| hog_until(&over));
            let peak =
                worst(place.path(), &[channel, "-c", "1"], || std::thread::sleep(Duration::from_millis(20)));
            over.store(true, Ordering::Relaxed);
            hog.join().unwrap();
            peak
        })
    });
    let mut seen = Vec::new();
    let is_named = |peak: &Peak| {
        let culprit = peak.culprit.clone().unwrap_or_default();
        culprit == "thread: test-hog" && within(of(peak, "test-hog"), twenty.min(peak.total_ns))
    };
    assert!(hogged.inspect(|peak| seen.push(peak.sentence())).any(|peak| is_named(&peak)), "{seen:#?}");

    let delayed = (0..3).map(|_| {
        let _responder = Responder::start(&["-c", "0", channel, "--delay", "10ms"]);
        worst(place.path(), &[channel, "-c", "1", "-i", "50ms"], || {
            std::thread::sleep(Duration::from_millis(20))
        })
    });
    let mut seen = Vec::new();
    let is_delay = |peak: &Peak| {
        let turnaround = &peak.explanation.as_ref().unwrap().tree.children[1];
        turnaround.label.starts_with("turnaround")
            && within(turnaround.duration_ns, Ns::from_ms(10))
            && peak.sentence().contains("respond/")
            && within(of(peak, "respond/"), Ns::from_ms(10))
    };
    assert!(delayed.inspect(|peak| seen.push(peak.sentence())).any(|peak| is_delay(&peak)), "{seen:#?}");

    // 20 ms by the clock, which runs on while a host takes the CPU; the first instructions after an idle time take long on
    // some machines too. So the program tells the most CPU time that one answer took, after that answer.
    let told = place.path().join("most");
    let program = format!(
        "import os,time\nmost=0\nbefore=time.thread_time_ns()\nwhile True:\n b=b''\n while len(b)<40:\n  r=os.read(0,40-len(b))\n  if not r: raise SystemExit\n  b+=r\n e=time.monotonic()+.02\n while time.monotonic()<e: pass\n os.write(1,b)\n took=time.thread_time_ns()-before\n if took>most:\n  most=took\n  open('{}','w').write(str(most))\n before=time.thread_time_ns()",
        told.display()
    );
    let computed = (0..3).map(|_| {
        let responder =
            Responder::start(&["-c", "0", channel, "--", "chrt", "-f", "50", "python3", "-c", &program]);
        std::thread::sleep(Duration::from_millis(500)); // it begins
        let peak = worst(place.path(), &[channel, "-c", "1", "-i", "200ms"], || {
            std::thread::sleep(Duration::from_millis(20))
        });
        drop(responder);
        (peak, Ns(std::fs::read_to_string(&told).unwrap().parse().unwrap()))
    });
    let mut seen = Vec::new();
    let is_program = |(peak, most): &(Peak, Ns)| {
        within(of(peak, "python3/"), *most) && peak.sentence().contains("python3/")
    };
    assert!(
        computed.inspect(|(peak, most)| seen.push((peak.sentence(), *most))).any(|case| is_program(&case)),
        "{seen:#?}"
    );
}

#[test]
#[ignore = "needs root"]
fn the_responder_alone_names_the_hog_and_the_pair_of_runs_does_too() {
    let name = "the_responder_alone_names_the_hog_and_the_pair_of_runs_does_too";
    if !may_run(name, lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    let (boxed, there, both) = (path("box"), path("there"), path("both.json"));
    let read = |file: &str| {
        let file = std::path::PathBuf::from(file);
        let file = if file.is_dir() { file.join("run.lathunt.json") } else { file };
        Run::from_json(&std::fs::read_to_string(file).unwrap()).unwrap()
    };
    let lathunt = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    };
    let channel = "udp:127.0.0.1:47432";
    let is_named = |peak: &Peak| {
        peak.culprit.as_deref() == Some("thread: test-hog")
            && within(of(peak, "test-hog"), Ns::from_ms(20).min(peak.total_ns))
    };
    // The host may take the CPU meanwhile: then once more.
    let mut seen: Vec<Peak> = Vec::new();
    for _ in 0..3 {
        let mut responder = Responder::start(&["-c", "0", channel, "--record", "-o", &there]);
        let over = Arc::new(AtomicBool::new(false));
        let hog = std::thread::spawn({
            let over = Arc::clone(&over);
            move || hog_until(&over)
        });
        lathunt(&["box", channel, "-q", "-D", "1s", "--wait", "20s", "-o", &boxed]);
        // SAFETY: our own child, which was not waited for.
        assert_eq!(unsafe { libc::kill(responder.0.id() as libc::pid_t, libc::SIGINT) }, 0);
        responder.0.wait().unwrap();
        over.store(true, Ordering::Relaxed);
        hog.join().unwrap();
        lathunt(&["merge", "--pair", "-q", &boxed, &there, "-o", &both]);
        seen.extend([read(&there), read(&both)].map(|run| run.peaks.into_iter().next().unwrap()));
        if seen[seen.len() - 2..].iter().all(is_named) {
            return;
        }
    }
    let told: Vec<String> = seen.iter().map(Peak::sentence).collect();
    panic!("{told:#?}");
}
