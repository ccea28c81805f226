//! Measurements without a real-time priority.

use super::*;
use crate::conditions::Capability;

#[test]
fn an_ordinary_measurement_is_told_only_the_rights_and_conditions_that_it_lacked() {
    let needs = |quantity, online: &str, may| {
        let mut run = good_run();
        run.conditions.machine.cpus_online = Some(online.into());
        let present = Capability { name: "sched_fifo".into(), present: may, note: String::new() };
        run.conditions.capabilities = vec![present];
        for series in &mut run.series {
            (series.quantity, series.thread.as_mut().unwrap().prio) = (quantity, Some(Prio(120)));
        }
        let reasons = judge(&run, Some(DEADLINE), &Rules::instrument(quantity)).reasons;
        let reason = reasons.iter().find(|reason| reason.contains("ordinary task")).unwrap();
        reason.split(" (").nth(1).unwrap().trim_end_matches(')').to_owned()
    };
    let free = "needs a CPU that is not measured, for everything else: choose the measured ones with -c";
    assert_eq!(needs(Quantity::Npt, "0-1", true), free);
    assert!(needs(Quantity::Npt, "0-1", false).starts_with(&format!("{free} and CAP_SYS_NICE")));
    assert_eq!(needs(Quantity::Npt, "0-3", true), "needs a priority above 0");
    assert_eq!(needs(Quantity::Cyclic, "0-1", true), "needs a priority above 0");
    assert!(
        needs(Quantity::Cyclic, "0-1", false).starts_with("needs a priority above 0 and CAP_SYS_NICE: `sudo")
    );
}
