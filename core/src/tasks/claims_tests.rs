//! Sets for which a bound would be a wrong PASS: each has a schedule that exceeds the naive one.

use super::analyse::{analyse, Analysis, Costs};
use super::set::TaskSet;
use crate::time::Ns;

/// The analysis of tasks (name, members, period of its timer or 0) with mutexes m and n of this protocol; on CPU 0 without "cpus".
fn analysed(tasks: &[(&str, &str, u32)], protocol: &str) -> Analysis {
    let bound = |members: &str| match members.contains("\"cpus\"") {
        true => members.to_owned(),
        false => format!("\"cpus\": [0], {members}"),
    };
    let bound: Vec<String> = tasks.iter().map(|(_, members, _)| bound(members)).collect();
    let tasks =
        tasks.iter().zip(&bound).map(|((name, _, period), members)| (*name, members.as_str(), *period));
    analysed_as_given(&tasks.collect::<Vec<_>>(), protocol, Costs::default())
}

fn analysed_as_given(tasks: &[(&str, &str, u32)], protocol: &str, costs: Costs) -> Analysis {
    let timer = |period: u32| match period {
        0 => String::new(),
        _ => format!(", \"timer\": {{\"ref\": \"unique\", \"period\": {period}}}"),
    };
    let task = |(name, members, period): &(&str, &str, u32)| {
        format!("\"{name}\": {{\"policy\": \"SCHED_FIFO\", {members}{}}}", timer(*period))
            .replace("\"policy\": \"SCHED_FIFO\", \"policy\"", "\"policy\"")
            .replace("\"policy\": \"SCHED_FIFO\", \"cpus\": [0], \"policy\"", "\"cpus\": [0], \"policy\"")
    };
    let mutex = |name| format!("\"{name}\": {{\"type\": \"mutex\", \"protocol\": \"{protocol}\"}}");
    let tasks = tasks.iter().map(task).collect::<Vec<_>>().join(", ");
    let text = format!("{{\"resources\": {{{}, {}}}, \"tasks\": {{{tasks}}}}}", mutex("m"), mutex("n"));
    analyse(&TaskSet::from_json(&text).unwrap_or_else(|error| panic!("{error}\n{text}")), costs)
}

fn responses(analysis: &Analysis) -> Vec<Option<u64>> {
    analysis.rows.iter().map(|row| row.response.map(|ns| ns.0 / 1_000)).collect()
}

fn says(analysis: &Analysis, words: &str) -> bool {
    analysis.warnings.iter().any(|warning| warning.text.contains(words))
}

const M: &str = "\"lock\": \"m\", \"run\": 20, \"unlock\": \"m\"";

#[test]
fn a_phase_that_is_repeated_without_a_wait_is_all_one_job() {
    let of = |phase: &str| {
        let timer = "\"timer\": {\"ref\": \"unique\", \"period\": 100}";
        let members = format!(
            "\"priority\": 2, \"phases\": {{\"work\": {{{phase}}}, \"wait\": {{\"run\": 1, {timer}}}}}"
        );
        analysed(&[("a", &members, 0), ("b", "\"priority\": 1, \"run\": 3", 200)], "inherit")
    };
    assert_eq!(responses(&of("\"loop\": 3, \"run\": 5")), [Some(16), Some(19)]);
    let endless = of("\"loop\": -1, \"run\": 5");
    assert_eq!(responses(&endless), [None, None]);
    assert!(says(&endless, "it never waits") && !endless.edf.schedulable);
}

#[test]
fn without_a_timer_only_a_sleep_ends_a_job_whatever_period_is_stated() {
    let of = |events: &str| {
        let members =
            format!("\"priority\": 2, \"period\": 100, \"phases\": {{\"p\": {{\"loop\": -1, {events}}}}}");
        let found = analysed(&[("a", &members, 0), ("b", "\"priority\": 1, \"run\": 3", 200)], "inherit");
        (responses(&found), found.edf.utilisation)
    };
    assert_eq!(of("\"run\": 30").0, [None, None], "it runs for ever");
    assert_eq!(of("\"run\": 30, \"sleep\": 10"), (vec![Some(30), Some(33)], 0.765), "every 40, not 100");
    assert_eq!(of("\"run\": 30, \"sleep\": 120"), (vec![Some(30), Some(33)], 0.315), "as stated");
}

#[test]
fn after_each_sleep_a_thread_may_be_blocked_again() {
    let high = "\"priority\": 9, \"run\": 10, \"sleep\": 5, \"run1\": 10, \"lock\": \"m\", \"run2\": 1, \"unlock\": \"m\"";
    let low = format!("\"priority\": 1, {M}, {}", M.replace("ck\"", "ck1\"").replace("run", "run1"));
    for protocol in ["ceiling", "inherit"] {
        let found = analysed(
            &[("high", high, 100), ("middle", "\"priority\": 5, \"run\": 1", 100), ("low", &low, 1_000)],
            protocol,
        );
        // low locks m just before the release of high, and again while it sleeps: 20 + 10 + 5 + 20 + 11.
        let shown: Vec<_> = found.rows.iter().map(|row| (row.blocking, row.response)).collect();
        let us = Ns::from_us;
        assert_eq!(shown[0], (us(40), Some(us(66))), "{protocol}");
        // high and all that delays it, a section that high may need, itself
        assert_eq!(shown[1], (us(20), Some(us(46 + 20 + 1))), "{protocol}");
        assert!(found.edf.schedulable);
    }
    // 46 of 60 with one section, 66 with both.
    let found = analysed(&[("high", high, 60), ("low", &low, 1_000)], "ceiling");
    assert!(!found.rows[0].schedulable && !found.edf.schedulable);
}

#[test]
fn a_thread_that_may_wait_for_an_owner_which_sleeps_has_no_bound() {
    let asleep = "\"lock\": \"m\", \"run\": 1, \"sleep\": 3, \"run1\": 1, \"unlock\": \"m\"";
    let uses = "\"lock\": \"m\", \"run\": 1, \"unlock\": \"m\"";
    for protocol in ["ceiling", "inherit"] {
        let of = |first: &str, second: &str| {
            let (first, second) = (format!("\"priority\": 9, {first}"), format!("\"priority\": 5, {second}"));
            let found = analysed(&[("a", &first, 100), ("b", &second, 100)], protocol);
            (responses(&found).iter().map(Option::is_some).collect::<Vec<_>>(), found.edf.schedulable)
        };
        assert_eq!(of(uses, asleep), (vec![false, true], false), "{protocol}");
        assert_eq!(of(asleep, uses), (vec![true, false], false), "{protocol}: others run while it sleeps");
        assert_eq!(of(asleep, "\"run\": 1"), (vec![true, true], true), "{protocol}: nobody else uses it");
    }
}

#[test]
fn a_mutex_shared_between_processors_leaves_nothing_to_claim() {
    for protocol in ["ceiling", "inherit", "none"] {
        let on = |cpu: u32, priority: u32, events: &str| {
            format!("\"priority\": {priority}, \"cpus\": [{cpu}], {events}")
        };
        let plain = "\"run\": 1";
        let of = |first: u32, second: u32| {
            let tasks = [
                ("top", on(0, 9, plain), 1_000),
                ("user", on(0, 5, M), 1_000),
                ("far", on(1, first, M), 1_000),
                ("alone", on(1, second, plain), 1_000),
            ];
            analysed(
                &tasks.each_ref().map(|(name, members, period)| (*name, members.as_str(), *period)),
                protocol,
            )
        };
        let found = of(7, 8);
        assert_eq!(responses(&found), [Some(1), None, None, Some(1)], "{protocol}");
        assert!(says(&found, "with a thread that may run on another CPU") && !found.edf.schedulable);
        // The far user is more urgent than top: the near one may run before top.
        assert_eq!(responses(&of(20, 30)), [None, None, None, Some(1)], "{protocol}");
    }
}

#[test]
fn an_unprotected_holder_that_shares_its_level_is_delayed_by_the_others_of_it() {
    let of = |policy: &str, protocol: &str, others: u32| {
        let low = format!("\"policy\": \"{policy}\", {M}");
        let other = format!("\"policy\": \"{policy}\", \"run\": 50, \"instance\": {others}");
        let high = format!("\"priority\": 20, {M}");
        let found =
            analysed(&[("high", &high, 1_000), ("low", &low, 1_000), ("other", &other, 1_000)], protocol);
        found.rows[0].response.map(|ns| ns.0 / 1_000)
    };
    for policy in ["SCHED_OTHER", "SCHED_RR"] {
        assert_eq!(of(policy, "none", 1), None, "{policy}");
        assert_eq!(of(policy, "inherit", 1), Some(40), "{policy}: the holder is raised");
    }
    assert_eq!(of("SCHED_FIFO", "none", 1), Some(40), "a preempted holder is the first of its level");
}

#[test]
fn the_demand_of_forked_threads_is_unknown_even_if_that_of_the_fork_is_stated() {
    let tasks = [
        ("child", "\"instance\": 0, \"priority\": 9, \"run\": 90", 100),
        ("parent", "\"priority\": 5, \"wcet\": 1, \"fork\": \"child\"", 100),
        ("top", "\"priority\": 20, \"run\": 2", 100),
    ];
    let found = analysed(&tasks, "inherit");
    assert_eq!(responses(&found), [None, None, Some(2)]);
    assert!(says(&found, "the number of its threads is not known") && !found.edf.schedulable);
}

#[test]
fn a_ceiling_inside_a_mutex_with_inheritance_does_not_pass_the_priority_on() {
    // "low" holds n, of ceiling 3, when "middle", which holds m for "high", wants it; "other" preempts "low" without limit.
    let of = |m: &str, n: &str| {
        let text = format!(
            r#"{{"tasks": {{
                "high": {{"policy": "SCHED_FIFO", "priority": 9, "lock": "m", "run": 1, "unlock": "m",
                    "timer": {{"ref": "unique", "period": 100}}}},
                "other": {{"policy": "SCHED_FIFO", "priority": 5, "run": 50, "timer": {{"ref": "unique", "period": 200}}}},
                "low": {{"policy": "SCHED_FIFO", "priority": 3, "lock": "n", "run": 3, "unlock": "n",
                    "timer": {{"ref": "unique", "period": 1000}}}},
                "middle": {{"policy": "SCHED_FIFO", "priority": 2, "lock": "m", "run": 3, "lock2": "n", "run2": 1,
                    "unlock2": "n", "unlock": "m", "timer": {{"ref": "unique", "period": 1000}}}}}},
                "resources": {{"m": {{"type": "mutex", "protocol": "{m}"}}, "n": {{"type": "mutex", "protocol": "{n}"}}}}}}"#
        );
        let text = text.replace("\"policy\":", "\"cpus\": [0], \"policy\":");
        let found = analyse(&TaskSet::from_json(&text).unwrap(), Costs::default());
        (responses(&found), says(&found, "does not inherit the priority"))
    };
    assert_eq!(of("inherit", "ceiling"), (vec![None, None, Some(59), Some(58)], true));
    assert_eq!(of("none", "ceiling").0[0], None);
    assert_eq!((of("inherit", "inherit").1, of("ceiling", "ceiling").1), (false, false));
    assert!(of("ceiling", "inherit").0.iter().all(Option::is_some));
}

#[test]
fn what_a_reservation_stops_or_may_postpone_has_no_response() {
    let of = |members: &str, period: u32| {
        let dl = format!("\"policy\": \"SCHED_DEADLINE\", {members}");
        analysed(&[("a", &dl, period), ("b", "\"priority\": 1, \"run\": 3", 20_000)], "inherit")
    };
    let fits = of("\"dl-runtime\": 5000, \"dl-period\": 20000, \"run\": 5000", 20_000);
    assert_eq!(responses(&fits), [Some(5_000), Some(5_003)]);
    assert!(fits.edf.schedulable);
    // 1 of 20 ms: a job of 5 ms takes more than 80 ms.
    let small = of("\"dl-runtime\": 1000, \"dl-period\": 20000, \"run\": 5000", 20_000);
    assert!(says(&small, "more than its dl-runtime of 1.000 ms"), "{:?}", small.warnings);
    let often = of("\"dl-runtime\": 5000, \"dl-period\": 20000, \"run\": 5000", 10_000);
    assert!(says(&often, "released every 10.000 ms"), "{:?}", often.warnings);
    // The reservation, not its work of 1 of 20 ms, is what it takes of the CPU.
    let endless = of("\"dl-runtime\": 5000, \"dl-period\": 20000, \"loop\": -1, \"run\": 1000", 0);
    for found in [small, often, endless] {
        assert_eq!(responses(&found), [None, None]);
        assert!(!found.edf.schedulable);
    }
    let reserved = "\"dl-runtime\": 5000, \"dl-period\": 20000";
    for protocol in ["inherit", "ceiling"] {
        let dl = format!("\"policy\": \"SCHED_DEADLINE\", {reserved}, {M}");
        let fifo = format!("\"priority\": 1, {M}");
        let found = analysed(&[("a", &dl, 20_000), ("b", &fifo, 20_000)], protocol);
        assert_eq!(responses(&found), [None, None], "{protocol}");
        assert!(says(&found, "inheritance, ceilings") && says(&found, "stack resource policy"), "{protocol}");
    }
    let sleeps = of(&format!("{reserved}, \"run\": 10, \"sleep\": 20, \"run1\": 10"), 20_000);
    assert_eq!(responses(&sleeps), [None, None]);
}

/// On two CPUs, each lock of h may wait for another one of the others: 100 + 4000 + 100 + 4000.
#[test]
fn mutexes_of_threads_that_several_cpus_may_run_have_no_bound_of_one_processor() {
    let lock = |work: u32| format!("\"lock\": \"m\", \"cputime\": {work}, \"unlock\": \"m\"");
    let of = |h: &str, l: &str, protocol: &str| {
        let high = format!("\"priority\": 50, {h} {}, {}", lock(100), lock(100));
        let low = |name, priority: u32| (name, format!("\"priority\": {priority}, {l} {}", lock(4_000)));
        let all = [("h", high, 20_000), ("l", low("l", 10).1, 50_000), ("k", low("k", 11).1, 50_000)];
        let between = ("x", "\"priority\": 20, \"cpus\": [1], \"run\": 5".to_owned(), 50_000);
        let all: Vec<(&str, &str, u32)> = all
            .iter()
            .chain([&between])
            .map(|(name, members, period)| (*name, members.as_str(), *period))
            .collect();
        analysed_as_given(&all, protocol, Costs::default())
    };
    let (both, one) = ("\"cpus\": [0, 1],", "\"cpus\": [1],");
    for protocol in ["inherit", "ceiling"] {
        for (h, l) in [(both, both), (both, one), (one, both), ("", one), ("", "")] {
            let found = of(h, l, protocol);
            assert_eq!(responses(&found), [None; 4], "{protocol} {h} {l}: {:?}", found.warnings);
            assert!(!found.edf.schedulable);
        }
        assert!(responses(&of(one, one, protocol)).iter().all(Option::is_some));
    }
}

#[test]
fn without_any_affinity_the_users_of_a_shared_mutex_have_no_response() {
    let user = |priority: u32| format!("\"priority\": {priority}, {M}");
    let plain = ("x", "\"priority\": 60, \"run\": 5", 1_000);
    for protocol in ["none", "inherit", "ceiling"] {
        let found = analysed_as_given(
            &[("a", &user(50), 1_000), ("b", &user(10), 1_000), plain],
            protocol,
            Costs::default(),
        );
        assert_eq!(responses(&found), [None, None, Some(5)], "{protocol}");
        assert!(
            says(&found, "bind all to one (\"cpus\", or -c)") && !found.edf.schedulable,
            "{:?}",
            found.warnings
        );
        let alone = analysed_as_given(&[("a", &user(50), 1_000), plain], protocol, Costs::default());
        assert_eq!(responses(&alone), [Some(25), Some(5)], "nobody else uses it");
    }
}

/// Into h, to the holder, back to h: two switches for each lock that may have to wait.
#[test]
fn a_lock_that_may_have_to_wait_costs_two_switches() {
    let of = |h: &str, m: &str| {
        let high = format!("\"cpus\": [0], \"priority\": 50, {h}");
        let low = "\"cpus\": [0], \"priority\": 10, \"lock\": \"m\", \"run\": 3000, \"unlock\": \"m\"";
        let costs = Costs { switch: Ns::from_ms(1) };
        responses(&analysed_as_given(&[("h", &high, 100_000), ("l", low, 100_000)], m, costs))
    };
    let section = "\"lock\": \"m\", \"run\": 1000, \"unlock\": \"m\"";
    // 1 + 2 + 2 + 3 of l; a legal schedule takes 7 until the end of h: 1, 1, 3, 1, 1.
    assert_eq!(of(section, "inherit"), [Some(8_000), Some(3_000 + 4_000 + 5_000)]);
    assert_eq!(of(section, "ceiling")[0], Some(6_000), "no lock waits");
    let other = section.replace("\"m\"", "\"n\"");
    assert_eq!(of(&other, "inherit")[0], Some(3_000), "it shares no mutex");
    let twice = "\"phases\": {\"p\": {\"loop\": 2, \"lock\": \"m\", \"run\": 500, \"unlock\": \"m\"}, \"q\": {\"timer\": \
                 {\"ref\": \"unique\", \"period\": 100000}}}";
    let high = format!("\"cpus\": [0], \"priority\": 50, {twice}");
    let low = "\"cpus\": [0], \"priority\": 10, \"lock\": \"m\", \"run\": 3000, \"unlock\": \"m\"";
    let costs = Costs { switch: Ns::from_ms(1) };
    let found = analysed_as_given(&[("h", &high, 0), ("l", low, 100_000)], "inherit", costs);
    assert_eq!(responses(&found)[0], Some(1_000 + 2_000 + 4_000 + 3_000));
    // The holder of m waits for n inside: its section, for which h waits, has two more switches.
    let nested =
        "\"cpus\": [0], \"priority\": 20, \"lock\": \"m\", \"run\": 1000, \"lock1\": \"n\", \"run1\": 1000, \
                  \"unlock1\": \"n\", \"unlock\": \"m\"";
    let inner = low.replace("\"m\"", "\"n\"");
    let high = format!("\"cpus\": [0], \"priority\": 50, {section}");
    let tasks = [("h", high.as_str(), 100_000), ("m", nested, 100_000), ("l", &inner, 100_000)];
    let found = analysed_as_given(&tasks, "inherit", costs);
    assert_eq!(found.rows[0].blocking, Ns::from_ms(2 + 2 + 3));
}

#[test]
fn a_task_whose_phases_differ_in_priority_has_no_response_nor_have_those_below_its_highest() {
    let timer = |period: u32| format!("\"timer\": {{\"ref\": \"unique\", \"period\": {period}}}");
    let of = |a: &str, b: &str| {
        let phases = format!(
            "\"priority\": 10, \"phases\": {{\"a\": {{{a} \"run\": 1, {}}}, \"b\": {{{b} \"run\": 9, {}}}}}",
            timer(500),
            timer(500)
        );
        analysed(
            &[
                ("top", "\"priority\": 95, \"run\": 2", 100),
                ("high", "\"priority\": 50, \"run\": 1", 100),
                ("low", &phases, 0),
            ],
            "inherit",
        )
    };
    assert_eq!(responses(&of("", "")), [Some(2), Some(3), Some(12)]);
    let raised = of("", "\"priority\": 90,");
    assert_eq!(responses(&raised), [Some(2), None, None], "low runs 9 at 90, in each second job");
    assert!(says(&raised, "its phases differ in policy or priority"), "{:?}", raised.warnings);
    assert_eq!(responses(&of("\"priority\": 5,", "")), [Some(2), Some(3), Some(12)], "it stays at 5");
    assert_eq!(responses(&of("\"priority\": 90,", "\"priority\": 90,")), [Some(2), Some(12), Some(11)]);
    let policy = of("", "\"policy\": \"SCHED_OTHER\",");
    assert_eq!(responses(&policy), [Some(2), Some(3), None]);
    let cpus = of("\"cpus\": [0],", "\"cpus\": [1],");
    assert_eq!(responses(&cpus), [Some(2), Some(3), Some(12)], "as if all shared one CPU");
    assert!(says(&cpus, "not every thread is bound to one CPU"), "{:?}", cpus.warnings);
    // Of a task with one phase, its scheduling is in the phase.
    let phase = format!("\"phases\": {{\"a\": {{\"priority\": 90, \"run\": 9, {}}}}}", timer(500));
    let found = analysed(&[("mid", "\"priority\": 20, \"run\": 1", 100), ("hog", &phase, 0)], "inherit");
    assert_eq!(responses(&found), [Some(10), Some(9)]);
}

/// Between 50 and 95, `x` may prolong the section that `low` executes at 10.
#[test]
fn a_section_of_a_task_whose_phases_differ_in_priority_is_unbounded() {
    let timer = "\"timer\": {\"ref\": \"unique\", \"period\": 1000}";
    let low = format!(
        "\"priority\": 10, \"phases\": {{\"a\": {{{M}, {timer}}}, \"b\": {{\"priority\": 90, \"run\": 1, {timer}}}}}"
    );
    let top = format!("\"priority\": 95, {M}");
    for protocol in ["none", "inherit"] {
        let found = analysed(
            &[("top", &top, 1_000), ("x", "\"priority\": 92, \"run\": 5", 1_000), ("low", &low, 0)],
            protocol,
        );
        assert_eq!(responses(&found), [None, None, None], "{protocol}");
        assert!(says(&found, "while it may run at the priority of another phase"), "{:?}", found.warnings);
    }
}

#[test]
fn a_conversion_to_whole_microseconds_makes_no_deadline_longer_and_no_work_shorter() {
    let text = "{\"tasks\": {\"t\": {\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 10.001, \"dl-deadline\": 50.999, \"dl-period\": 90.5, \
                \"run\": 5.25, \"timer\": {\"ref\": \"t\", \"period\": 100.9}}}}";
    let plain = TaskSet::from_json(text).unwrap().to_json(false);
    let plain = TaskSet::from_json(&plain).unwrap().tasks.remove(0);
    let sched = &plain.sched;
    let us = |us: u64| Some(Ns::from_us(us));
    assert_eq!((sched.dl_runtime, sched.dl_deadline, sched.dl_period), (us(11), us(50), us(90)));
    let events = format!("{:?}", plain.phases[0].events);
    let has = |us: u64| events.contains(&format!("{:?}", Ns::from_us(us)));
    assert!(has(6) && has(100) && !has(101), "{events}");
}
