//! Instrumented programs and the kernel by one clock: an interval between two events of a program is explained by what
//! the kernel did meanwhile.

use lathunt_host::testing::{lacks_root, may_run};
use serde_json::Value;

use super::lab::Lab;

#[test]
#[ignore = "root: run by make test"]
fn an_interval_between_two_events_of_a_program_is_explained_by_the_kernel() {
    if !may_run("an_interval_between_two_events_of_a_program_is_explained_by_the_kernel", lacks_root()) {
        return;
    }
    let lab = Lab::new();
    let program = lab.program("emitter");
    let (out, counters) = (lab.path("out"), lab.path("counters"));
    let out = out.to_str().unwrap();
    // One thread, 400 events, a sleep of 100 µs behind each.
    let command = [program.to_str().unwrap(), counters.to_str().unwrap(), "1", "400", "1"];
    let arguments: Vec<&str> =
        ["--user", "--events", "rt", "-o", out, "--"].into_iter().chain(command).collect();
    lab.trace_ok(&arguments);
    let markers = ["event:test:count[number==200]", "event:test:count[number==201]"];
    let answer = lab
        .command(env!("CARGO_BIN_EXE_lathunt"))
        .args(["explain", out, "--between", markers[0], markers[1], "--json"])
        .output()
        .unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let answers: Value = serde_json::from_slice(&answer.stdout).unwrap();
    let interval = &answers["passages"][0];
    assert!(interval["total_ns"].as_u64().unwrap() >= 100_000, "{answers:#}");
    let told = interval.to_string();
    assert!(told.contains("emitter") && told.contains("timer"), "it slept by its timer: {interval:#}");
}
