//! Kernels whose real-time patch had other options.

use super::*;

/// The patches of that time: other names of options, and no osnoise.
#[test]
fn a_kernel_patched_before_5_4_is_judged_by_what_it_can_have() {
    let config = |release: &str, options: &str| {
        let text = format!(
            "# Automatically generated file; DO NOT EDIT.\n# Linux/x86 {release} Kernel Configuration\nCONFIG_HZ=1000\n{options}"
        );
        Kconfig::of(&text).snapshot().unwrap()
    };
    let outcome = |snapshot: &Snapshot, id: &str| {
        let found = check(&Facts::new(snapshot, Profile::Periodic, None));
        found.into_iter().find(|finding| finding.rule.id == id).unwrap().outcome
    };
    let old = config("3.18.9-rt5", "CONFIG_PREEMPT=y\nCONFIG_PREEMPT_RT_BASE=y\nCONFIG_PREEMPT_RT_FULL=y\n");
    let told = answers(&Facts::new(&old, Profile::Periodic, None));
    assert_eq!((told.realtime, told.evidence.join("")), (Some(true), "CONFIG_PREEMPT_RT_FULL=y".to_owned()));
    // Later kernels ignore that option, and a fragment does not say which kernel it is for.
    let full = "CONFIG_PREEMPT_RT_FULL=y\n";
    let realtime = |snapshot: Snapshot| answers(&Facts::new(&snapshot, Profile::Periodic, None)).realtime;
    let ignored = config("6.12.1", &format!("CONFIG_PREEMPT=y\n{full}# CONFIG_PREEMPT_RT is not set\n"));
    assert_eq!(realtime(ignored), Some(false));
    assert_eq!(realtime(Kconfig::of(full).snapshot().unwrap()), None);
    assert_eq!(
        (outcome(&old, "preempt-rt"), outcome(&old, "tracers")),
        (Outcome::Good, Outcome::DoesNotApply)
    );
    let without =
        config("4.19.37", "CONFIG_PREEMPT=y\n# CONFIG_PREEMPT_RT_FULL is not set\nCONFIG_HWLAT_TRACER=y\n");
    assert_eq!(
        (outcome(&without, "preempt-rt"), outcome(&without, "tracers")),
        (Outcome::Bad, Outcome::Good)
    );
    // Advice has the options of that series.
    let fragment =
        |snapshot: &Snapshot| kconfig_fragment(&check(&Facts::new(snapshot, Profile::Periodic, None)));
    let none = |release: &str| fragment(&config(release, "CONFIG_PREEMPT=y\n"));
    for (release, rt, osnoise) in [
        ("4.19.37", "RT_FULL=y\n", false),
        ("5.2.21", "RT_FULL=y\n", false),
        ("5.4.1", "RT=y\n", false),
        ("5.15.0", "RT=y\n", true),
    ] {
        let told = none(release);
        assert!(told.contains(&format!("CONFIG_PREEMPT_{rt}")), "{release}: {told}");
        assert!(told.contains("CONFIG_HWLAT_TRACER=y\n"), "{release}: {told}");
        assert_eq!(told.contains("OSNOISE") || told.contains("TIMERLAT"), osnoise, "{release}: {told}");
    }
    // A kernel ignores an option that it does not know: such a line proves nothing.
    assert_eq!(realtime(config("4.19.37", "CONFIG_PREEMPT_RT=y\n")), Some(false));
    assert_eq!(realtime(config("2.6.33", "CONFIG_PREEMPT_RT=y\n")), Some(true), "its patch had that name");
    assert_eq!(realtime(Kconfig::of("CONFIG_PREEMPT_RT=y\n").snapshot().unwrap()), None);
    // Set by hand: the build drops it where nothing sets the option that it depends on, as a whole configuration shows.
    let whole: String = (0..12).map(|nth| format!("CONFIG_HAVE_{nth}=y\n")).collect();
    let by_hand = |release: &str| config(release, &format!("{whole}CONFIG_PREEMPT_RT=y\n"));
    let told = answers(&Facts::new(&by_hand("6.1.192"), Profile::Periodic, None));
    let evidence = told.evidence.join("");
    assert!(
        told.realtime == Some(false) && evidence.contains("without CONFIG_ARCH_SUPPORTS_RT=y"),
        "{evidence}"
    );
    assert_eq!((told.preemption, outcome(&by_hand("6.1.192"), "preempt-rt")), (None, Outcome::Bad));
    assert_eq!(realtime(by_hand("6.18.0")), Some(false));
    let patched = format!("{whole}CONFIG_PREEMPT_RT=y\nCONFIG_ARCH_SUPPORTS_RT=y\n");
    assert_eq!(realtime(config("6.1.192", &patched)), Some(true));
    let newer = config("5.15.0", "CONFIG_PREEMPT_RT=y\nCONFIG_HWLAT_TRACER=y\n");
    assert_eq!((outcome(&newer, "preempt-rt"), outcome(&newer, "tracers")), (Outcome::Good, Outcome::Bad));
}
