//! What the kernel does not offer is refused by its name; the estimate of a potential latency needs nothing.

use super::*;

#[test]
#[ignore = "root: run by make test"]
fn a_potential_latency_is_refused_with_the_option_s_name_or_estimated() {
    if !may_run("a_potential_latency_is_refused", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().to_str().unwrap();
    let refused = lathunt(&["record", "--potential", "irqsoff", "-D", "1s", "-o", directory]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("--potential estimate"), "{}", said(&refused));
    let ended =
        lathunt(&["record", "--tasks", "all", "--potential", "estimate", "-D", "1s", "-o", directory]);
    match said(&ended).contains("no tracepoint sched_set_need_resched_tp") {
        true => assert_eq!(ended.status.code(), Some(1)),
        false => {
            assert!(read(place.path()).max_of(Quantity::Blocking).is_some(), "{}", said(&ended));
            let text = String::from_utf8(ended.stdout).unwrap();
            for part in
                ["Observed-blocking estimate", "need_resched", "hard interrupt", "softirq", "timer late"]
            {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_path_analysis_is_refused_by_the_name_of_the_tracepoint_that_is_missing() {
    if !may_run("a_path_analysis_is_refused", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().to_str().unwrap();
    let refused = lathunt(&["record", "--tasks", "all", "--path-analysis", "-D", "1s", "-o", directory]);
    assert_eq!(refused.status.code(), Some(1));
    let expected =
        "lathunt: cannot analyse the paths of the kernel: this kernel has no tracepoint irq_disable; ";
    assert!(
        said(&refused).starts_with(expected) && said(&refused).lines().count() == 1,
        "{}",
        said(&refused)
    );
}
