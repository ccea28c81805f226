//! Idle states during a hunt, from outside.

use std::fs;
use std::process::{Command, Output, Stdio};

use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::Ns;
use lathunt_host::pm_qos;
use lathunt_host::testing::{lacks_root, may_run};

fn hunt(arguments: &[&str]) -> (Output, Option<Run>) {
    let place = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["hunt", "--load=none", "-p50"])
        .args(arguments)
        .arg("-o")
        .arg(place.path().join("out"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = fs::read_to_string(place.path().join("out/run.lathunt.json")).ok();
    (output, text.map(|text| Run::from_json(&text).unwrap()))
}

#[test]
#[ignore = "root"]
fn both_kinds_of_rounds_are_measured_and_the_limit_is_gone_afterwards() {
    let reason = lacks_root().or_else(|| pm_qos::read().is_err().then_some("no /dev/cpu_dma_latency"));
    if !may_run("rounds of idle states", reason) {
        return;
    }
    let before = pm_qos::read().unwrap();
    let (output, run) = hunt(&["-D4s", "--compare-idle"]);
    let run = run.unwrap_or_else(|| panic!("{output:?}"));
    let idle = run.idle.as_ref().unwrap();
    let all: Vec<&Series> = run.of(Quantity::Cyclic).collect();
    assert_eq!((idle.limit_us, idle.round_ns, all.len()), (0, Ns::from_ms(250), idle.free.len()));
    for ((free, limited), all) in idle.free.iter().zip(&idle.limited).zip(all) {
        let [free, limited, all] = [free, limited, all].map(|series| series.histogram.count());
        // 230 of the 250 ms of a round are in one half; the host may take a part of any.
        assert!(free > 400 && limited > 400 && free + limited < all, "{free} + {limited} of {all}");
    }
    assert_eq!(pm_qos::read().unwrap(), before);
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        shown.contains("Idle states as they are: median") && shown.contains("limited to 0 µs"),
        "{shown}"
    );
    let (output, run) = hunt(&["-D1s", "--pm-qos", "3"]);
    assert_eq!(run.unwrap().conditions.knobs.cpu_dma_latency_held_us, Some(3));
    assert!(String::from_utf8_lossy(&output.stdout).contains("cpu_dma_latency held at 3 µs"));
}

#[test]
fn limits_that_make_no_sense_are_refused_in_one_line() {
    for (arguments, named) in [
        (&["--pm-qos=-1"][..], "-1"),
        (&["--idle-latency", "deep"], "deep"),
        (&["--compare-idle", "--idle-latency", "5"], "cannot be used with"),
        (&["--compare-idle", "--until", "1e-3@95%"], "cannot be used with"),
    ] {
        let (output, run) = hunt(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), run), (Some(1), None), "{said}");
        assert!(said.trim_end().lines().count() == 1 && said.contains(named), "{said}");
    }
}
