//! Which of several things that took time is called the cause, and that none takes the time of another.

use super::super::segment::Kind;
use super::{explained, notation, told};
use crate::time::Ns;

fn window(events: &str) -> crate::trace::window::Window {
    notation::window(events)
}

#[test]
fn a_thread_of_equal_priority_has_the_cpu_by_right() {
    for (holder, cause) in [("95", "thread: hog"), ("94", "preemption off: hog")] {
        let events = format!(
            "
              0   c1 switch idle > hog/99@{holder}
            100   c1 waking rt/50@95
            600   c1 switch hog/99@{holder}:S > rt/50@95
            620   c1 switch rt/50@95:S > idle
            "
        );
        assert_eq!(explained(&window(&events), 100, 602).cause, cause);
        let told = told(&window(&events), 100, 602);
        assert_eq!(told.sentence.contains("of lower priority"), holder == "94", "{}", told.sentence);
    }
}

#[test]
fn the_victim_was_slow_where_it_took_longest() {
    let busy_until = |us: u64| {
        let events = format!(
            "
              0   c1 switch idle > rt/50@95
            {us}   c1 vec+ local_timer
            {us}.5 c1 timer+ hrtimer_wakeup 100
            {us}.6 c1 waking rt/50@95
            {us}.7 c1 timer-
            {us}.8 c1 vec- local_timer
            {us}.9 c1 switch rt/50@95:R > rt/50@95
            900   c1 switch rt/50@95:S > idle
            "
        );
        explained(&window(&events), 100, 800).cause
    };
    assert_eq!([busy_until(120), busy_until(700)], ["return to user space", "victim still busy"]);
}

#[test]
fn what_the_waking_found_tells_whether_a_holder_could_be_preempted() {
    let found = |first: &str, then: &str| {
        let events = format!(
            "
              0   c1 switch idle > hog/99
            100   c1 vec+ local_timer
            101   c1 timer+ hrtimer_wakeup 100
            102   c1 waking rt/50@95
            102   c1 stack hog/99 {first}
            103   c1 timer-
            104   c1 vec- local_timer
            400   c1 stack hog/99 {then}
            600   c1 switch hog/99:R > rt/50@95
            620   c1 switch rt/50@95:S > idle
            "
        );
        explained(&window(&events), 100, 602).cause
    };
    assert_eq!(found("user", "kernel f"), "not let run, behind hog");
    assert_eq!(found("kernel f", "user"), "preemption off: hog");
}

#[test]
fn a_stack_blames_the_thread_it_was_taken_of_and_no_other() {
    let explanation = explained(
        &window(
            "
              0   c1 switch idle > first/98
            597   c1 switch first/98:R > second/99
            600   c1 vec+ local_timer
            601   c1 timer+ hrtimer_wakeup 100
            602   c1 waking rt/50@95
            602   c1 stack second/99 kernel+ f
            603   c1 timer-
            604   c1 vec- local_timer
            605   c1 switch second/99:R > rt/50@95
            620   c1 switch rt/50@95:S > idle
            ",
        ),
        100,
        610,
    );
    assert_eq!(explanation.cause, "timer late, unexplained", "{}", explanation.sentence);
    assert!(!explanation.sentence.contains("first/98 (nice 0) kept"), "{}", explanation.sentence);
}

#[test]
fn what_the_host_took_is_put_somewhere_once() {
    let explanation = explained(
        &window(
            "
              0   c1 switch idle > first/98
            350   c1 switch first/98:R > second/99
            600   c1 vec+ local_timer
            601   c1 timer+ hrtimer_wakeup 100
            602   c1 waking rt/50@95
            603   c1 timer-
            604   c1 vec- local_timer
            604   c1 stolen 300 since 90
            605   c1 switch second/99:R > rt/50@95
            620   c1 switch rt/50@95:S > idle
            ",
        ),
        100,
        610,
    );
    let host: Ns = explanation
        .tree
        .leaves()
        .iter()
        .filter(|leaf| leaf.kind == Kind::Stolen)
        .map(|leaf| leaf.duration_ns)
        .sum();
    assert_eq!(host, Ns::from_us(300), "{explanation:#?}");
}

#[test]
fn what_the_host_took_at_another_time_is_no_part_of_it() {
    let explanation = explained(
        &window(
            "
              0   c1 switch idle > hog/99
            100   c1 waking rt/50@95
            600   c1 switch hog/99:R > rt/50@95
            620   c1 switch rt/50@95:S > idle
            900   c1 stolen 250 since 640
            ",
        ),
        100,
        602,
    );
    assert_eq!(explanation.cause, "preemption off: hog", "{}", explanation.sentence);
    assert!(!explanation.sentence.contains("host"), "{}", explanation.sentence);
}

#[test]
fn a_late_interrupt_between_cpus_is_told_only_where_it_made_up_most_of_the_wait() {
    let asked_at = |us: u64| {
        let events = format!(
            "
              0   c1 switch idle > hog/99
            100   c0 waking rt/50@95 c1
            {us}   c1 vec+ reschedule
            {us}   c1 vec- reschedule
            600   c1 switch hog/99:R > rt/50@95
            620   c1 switch rt/50@95:S > idle
            "
        );
        told(&window(&events), 100, 610).sentence.contains("came only after")
    };
    assert_eq!([asked_at(103), asked_at(590)], [false, true]);
}

#[test]
fn the_stopper_precedes_deadline_tasks_though_it_shows_a_lower_priority() {
    let window = window(
        "
          0   c1 switch idle > migration/1/16@99
        100   c1 waking rt/50@100
        600   c1 switch migration/1/16@99:S > rt/50@100
        620   c1 switch rt/50@100:S > idle
        ",
    );
    let explanation = explained(&window, 100, 602);
    let said = "waited 502 µs: migration/1/16 (RT 99), of equal or higher priority, held CPU 1";
    assert!(explanation.sentence.starts_with(said), "{}", explanation.sentence);
    assert_eq!(explanation.cause, "thread: migration/1");
    let told = told(&window, 100, 602);
    assert!(!told.sentence.contains("of lower priority"), "{}", told.sentence);
}
