//! Files in, analysis out.

use super::analyse::{analyse, margins, Costs};
use super::set::{Event, Policy, TaskSet};
use super::show;
use crate::time::Ns;

fn read(text: &str) -> TaskSet {
    TaskSet::from_json(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(text: &str) -> String {
    TaskSet::from_json(text).map(|set| format!("accepted: {set:?}")).unwrap_err().to_string()
}

fn names(set: &TaskSet) -> Vec<&str> {
    set.warnings.iter().map(|warning| warning.name).collect()
}

/// A set of one task with these members.
fn one(members: &str) -> String {
    format!("{{\"tasks\": {{\"t\": {{{members}}}}}}}")
}

/// Periodic FIFO tasks: (name, priority, C, T, further members of the task).
fn fifo(all: &[(&str, i32, u64, u64, &str)]) -> String {
    let task = |(name, priority, work, period, more): &(&str, i32, u64, u64, &str)| {
        format!(
            "\"{name}\": {{\"policy\": \"SCHED_FIFO\", \"priority\": {priority}{more}, \"loop\": -1, \"phases\": \
             {{\"p\": {{\"run\": {work}, \"timer\": {{\"ref\": \"unique\", \"period\": {period}}}}}}}}}"
        )
    };
    format!("{{\"tasks\": {{{}}}}}", all.iter().map(task).collect::<Vec<_>>().join(", "))
}

#[test]
fn the_grammar_of_the_tutorial_is_read_in_order() {
    let set = read(
        "{ /* a comment */ \"tasks\": { \"thread0\": { \"instance\": 12, \"loop\": 1, \"phases\": {
            \"light\": { \"loop\": 10, \"run\": 3000, \"timer\": { \"ref\": \"unique\", \"period\": 30000 } },
            \"heavy\": { \"loop\": 10, \"run1\": 27000, \"sleep_2\": 5, \"lock\": \"m\", \"unlock\": \"m\" } } } },
          \"global\": { \"duration\": 2, \"calibration\": 20, \"default_policy\": \"SCHED_FIFO\" } }",
    );
    let task = &set.tasks[0];
    assert_eq!((task.instances, task.loops, task.phases.len()), (12, Some(1), 2));
    assert_eq!(task.phases[1].events[..2], [Event::Run(Ns::from_ms(27)), Event::Sleep(Ns::from_us(5))]);
    assert_eq!((set.global.ns_per_loop, set.global.default_policy), (Some(20), Policy::Fifo));
    assert!(set.warnings.is_empty(), "{:?}", set.warnings);
}

#[test]
fn keys_that_rt_app_would_drop_or_take_for_others_are_errors() {
    let timer = "\"timer\": {\"ref\": \"unique\", \"period\": 1000}";
    for (members, wanted) in [
        (format!("\"runaway\": 5, {timer}"), "tasks.t: \"runaway\" is no event"),
        (format!("\"run\": 5, {timer}, \"foo\": 1"), "tasks.t: unknown key \"foo\""),
        (format!("\"run\": 5, {timer}, \"priority\": 20"), "must be -20 to 19"),
        (format!("\"run\": 5, {timer}, \"priority\": 1, \"priority\": 2"), "\"priority\" appears twice"),
        ("\"run\": 5, \"timer\": {\"ref\": \"unique\"}".to_owned(), "\"period\" must be above 0"),
        (format!("\"run\": 5, {timer}, \"deadline\": 0"), "\"deadline\" 0"),
        (format!("\"run\": -5, {timer}"), "must be a time in µs"),
        (format!("\"run\": \"5\", {timer}"), "found a string"),
        (format!("\"run\": 5, {timer}, \"loop\": 0"), "would never run"),
        (format!("\"run\": 5, {timer}, \"instance\": 0"), "nothing would run"),
        (format!("\"run\": 5, {timer}, \"unlock\": \"m\""), "which it does not hold"),
        (format!("\"lock\": \"m\", \"run\": 5, {timer}"), "add an unlock"),
        (format!("\"lock\": \"m\", \"lock1\": \"m\", {timer}"), "a deadlock with itself"),
        (format!("\"wait\": {{\"ref\": \"c\", \"mutex\": \"m\"}}, {timer}"), "lock it first"),
        (format!("\"fork\": \"x\", {timer}"), "no task of this set"),
        (format!("\"run\": 5, {timer}, \"policy\": \"FIFO\""), "must be one of SCHED_OTHER"),
        (format!("\"run\": 5, {timer}, \"cpus\": [70000]"), "CPU numbers"),
        ("\"phases\": {\"p\": {\"loop\": 2}}".to_owned(), "a phase without events"),
        ("\"run\": 1, \"phases\": {\"p\": {\"run\": 1}}".to_owned(), "put it into a phase"),
        ("\"instance\": 2000000000, \"run\": 5, \"sleep\": 5".to_owned(), "more than 100000 threads"),
    ] {
        let said = refused(&one(&members));
        assert!(said.contains(wanted) && !said.contains('\n'), "{members}: {said}");
    }
    for (text, wanted) in [
        ("{}", "no \"tasks\""),
        ("{\"tasks\": {}}", "nothing to run"),
        ("[]", "expected an object"),
        ("{\"tasks\": {\"t\": 1}}", "tasks.t: expected an object"),
        ("{\"tasks\": {\"t\": {\"run\": 1}}, \"x\": 1}", "unknown key \"x\""),
    ] {
        assert!(refused(text).contains(wanted), "{text}: {}", refused(text));
    }
}

#[test]
fn repeated_keys_are_kept_with_a_warning_as_workgen_means_them() {
    let set = read(&one("\"phases\": {\"p\": {\"run\": 1, \"sleep\": 2, \"run\": 3}, \"p\": {\"run\": 4}}"));
    assert_eq!(names(&set), ["repeated-key", "repeated-key"]);
    assert_eq!(set.tasks[0].phases.len(), 2);
    let events: Vec<_> = set.tasks[0].phases[0].events.iter().map(Event::key).collect();
    assert_eq!(events, ["run", "sleep", "run"]);
    let again = read(&set.to_json(false));
    assert!(again.warnings.is_empty(), "what is written has every key once: {:?}", again.warnings);
    assert_eq!(again.tasks[0].phases[0].events, set.tasks[0].phases[0].events);
    let two = read("{\"tasks\": {\"a\": {\"run\": 1, \"sleep\": 9}, \"a\": {\"run\": 2, \"sleep\": 9}}}");
    assert_eq!(two.tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["a", "a1"]);
}

#[test]
fn the_forms_of_workgen_and_of_old_examples_are_read_with_a_warning() {
    let set = read("{\"tasks\": {\"a\": {\"loop\": -1, \"suspend\", \"run\": 3, \"yield\",}}, \"global\": {\"frag\": 1}}");
    assert_eq!(set.tasks[0].phases[0].events[0], Event::Suspend("a".to_owned()));
    assert_eq!(names(&set), ["ignored-key", "workgen-syntax"]);
    assert!(refused(&one("\"run\", \"sleep\": 4")).contains("found null"));
}

#[test]
fn what_is_written_is_read_as_the_same_set() {
    let text = "{\"tasks\": {\"a\": {\"instance\": 3, \"delay\": 10, \"policy\": \"SCHED_FIFO\", \"priority\": 7,
        \"cpus\": [0, 2], \"deadline\": 900, \"jitter\": 3, \"blocking\": 4, \"loop\": 5, \"util_min\": 3, \"phases\": {\"p\": {
        \"lock\": \"m\", \"cputime\": 10, \"sync\": {\"ref\": \"c\", \"mutex\": \"m\"}, \"unlock\": \"m\",
        \"timer\": {\"ref\": \"x\", \"period\": 1000, \"mode\": \"absolute\"}, \"mem\": 5, \"iorun\": 6, \"yield\": \"\",
        \"memrun\": {\"type\": \"chase\", \"size\": 4096, \"count\": 3, \"ref\": \"b\"}, \"sem_post\": \"s\",
        \"resume\": \"q\", \"broad\": \"c\", \"fork\": \"b\"}}},
        \"b\": {\"instance\": 0, \"loop\": -1, \"run\": 4, \"sleep\": 9}},
        \"resources\": {\"m\": {\"type\": \"mutex\", \"protocol\": \"ceiling\"}}, \"global\": {\"ftrace\": \"none\"}}";
    let set = read(text);
    let again = read(&set.to_json(true));
    assert_eq!((&again.tasks, &again.global, &again.mutexes), (&set.tasks, &set.global, &set.mutexes));
    let plain = read("{\"tasks\": {\"a\": {\"run\": 4, \"sleep\": 9}}}").to_json(false);
    assert!(!plain.contains("global"), "rt-app would write logs: {plain}");
}

#[test]
fn a_conversion_loses_nothing_without_a_warning() {
    let deadline = read(&one(
        "\"policy\": \"SCHED_DEADLINE\", \"dl-runtime\": 10, \"deadline\": 50, \"period\": 90, \"run\": 5, \"sleep\": 9",
    ));
    assert!(deadline.losses().is_empty(), "rt-app's legacy names: {:?}", deadline.losses());
    let sched = read(&deadline.to_json(false)).tasks[0].sched.clone();
    assert_eq!((sched.dl_deadline, sched.dl_period), (Some(Ns::from_us(50)), Some(Ns::from_us(90))));
    let text = "{\"tasks\": {\"t\": {\"deadline\": 50, \"wcet\": 9, \"run\": 4.25, \"sleep\": 9}},
        \"resources\": {\"m\": {\"type\": \"mutex\", \"protocol\": \"ceiling\"}, \"n\": {\"type\": \"mutex\", \"protocol\": \"inherit\"}},
        \"global\": {\"pi_enabled\": true}}";
    let set = read(text);
    let said: Vec<String> = set.losses().iter().map(ToString::to_string).collect();
    assert!(said.len() == 3 && said[2].contains("resources.m"), "{said:?}");
    assert!(said[0].contains("deadline, wcet: omitted") && said[1].contains("rounded up"), "{said:?}");
    let again = read(&set.to_json(true));
    assert_eq!((&again.tasks, &again.mutexes), (&set.tasks, &set.mutexes), "fractions too");
}

#[test]
fn barriers_that_no_thread_can_pass_are_refused() {
    let two = |first: &str, second: &str| {
        let task = |name: &str, events: &str| format!("\"{name}\": {{\"loop\": -1, {events}}}");
        format!("{{\"tasks\": {{{}, {}}}}}", task("a", first), task("b", second))
    };
    let (x, y) = ("\"barrier\": \"x\"", "\"barrier\": \"y\"");
    let (x1, y1) = ("\"barrier1\": \"x\"", "\"barrier1\": \"y\"");
    assert!(refused(&two(&format!("{x}, {y1}"), &format!("{y}, {x1}")))
        .contains("deadlock: a at \"x\", b at \"y\""));
    assert!(
        refused(&one(&format!("\"loop\": -1, {x}, {x1}"))).contains("deadlock"),
        "it would have to be there twice"
    );
    read(&two(&format!("{x}, {y1}"), &format!("{x}, {y1}")));
    read(&two(x, x));
}

#[test]
fn a_set_in_rt_apps_grammar_gets_the_published_responses() {
    let text = fifo(&[("c", 1, 5, 20, ""), ("a", 3, 3, 7, ""), ("b", 2, 3, 12, "")]);
    let analysis = analyse(&read(&text), Costs::default());
    let document = show::json(&analysis, None);
    let row = |name: &str, response: u64, deadline: u64| {
        serde_json::json!({"name": name, "response_us": response, "deadline_us": deadline, "schedulable": true,
            "blocking_us": 0})
    };
    assert_eq!(document["tasks"], serde_json::json!([row("c", 20, 20), row("a", 3, 7), row("b", 6, 12)]));
    let edf = &document["edf"];
    assert_eq!((&edf["schedulable"], &edf["fails_at_us"]), (&true.into(), &serde_json::Value::Null));
    assert!((edf["utilisation"].as_f64().unwrap() - (3.0 / 7.0 + 0.5)).abs() < 1e-12);
}

#[test]
fn the_utilisation_of_threads_that_are_not_analysed_is_not_0() {
    let waits = "\"w\": {\"loop\": -1, \"run\": 5, \"sem_wait\": \"s\"}";
    let said = |tasks: &str| {
        let analysis = analyse(&read(&format!("{{\"tasks\": {{{tasks}}}}}")), Costs::default());
        let document = show::json(&analysis, None);
        (document["edf"]["utilisation"].clone(), show::text(&analysis, None))
    };
    let (share, text) = said(waits);
    assert_eq!(share, serde_json::Value::Null);
    assert!(text.ends_with("utilisation not known\n"), "{text}");
    let (share, text) = said(&format!("{waits}, \"a\": {{\"wcet\": 5, \"period\": 20}}"));
    assert_eq!(share, 0.25);
    assert!(text.ends_with("at least 0.2500, without 1 thread, whose demand is not known\n"), "{text}");
}

#[test]
fn edf_is_told_from_fixed_priorities_and_a_failure_has_its_place() {
    let text = fifo(&[("a", 2, 9_000, 20_000, ""), ("b", 1, 15_000, 30_000, "")]);
    let analysis = analyse(&read(&text), Costs::default());
    assert_eq!(analysis.rows[1].response, Some(Ns::from_ms(33)));
    assert!(!analysis.rows[1].schedulable && analysis.edf.schedulable);
    let text = fifo(&[
        ("a", 2, 331, 15_000, ", \"deadline\": 2688"),
        ("b", 1, 3_654, 77_000, ", \"deadline\": 3849"),
    ]);
    let document = show::json(&analyse(&read(&text), Costs::default()), None);
    assert_eq!(document["edf"]["fails_at_us"], 3_849);
    assert_eq!(document["edf"]["schedulable"], false);
}

/// Three tasks; the least and the most urgent share a mutex for 4 of 5 and 1 of 2 µs.
fn shared(global: &str) -> String {
    let timer = |us: u32| format!("\"cpus\": [0], \"timer\": {{\"ref\": \"unique\", \"period\": {us}}}");
    let task = |name: &str, priority: u32, events: &str, period: u32| {
        format!("\"{name}\": {{\"priority\": {priority}, \"loop\": -1, {events}, {}}}", timer(period))
    };
    format!(
        "{{\"tasks\": {{{}, {}, {}}}, \"global\": {{\"default_policy\": \"SCHED_FIFO\"{global}}}}}",
        task("high", 9, "\"run\": 1, \"lock\": \"m\", \"run1\": 1, \"unlock\": \"m\"", 20),
        task("middle", 5, "\"run\": 3", 30),
        task("low", 1, "\"run\": 1, \"lock\": \"m\", \"run1\": 4, \"unlock\": \"m\"", 60),
    )
}

#[test]
fn blocking_is_that_of_the_section_and_without_a_protocol_nothing_is_claimed() {
    let analysis = analyse(&read(&shared(", \"pi_enabled\": true")), Costs::default());
    let us =
        |at: usize| (analysis.rows[at].blocking.0 / 1_000, analysis.rows[at].response.map(|ns| ns.0 / 1_000));
    assert_eq!((us(0), us(1), us(2)), ((4, Some(6)), (4, Some(9)), (0, Some(10))));
    let open = analyse(&read(&shared("")), Costs::default());
    assert_eq!(open.rows.iter().map(|row| row.response.is_some()).collect::<Vec<_>>(), [false, false, true]);
    assert!(open.rows.iter().take(2).all(|row| !row.schedulable));
    assert!(open.warnings.iter().any(|warning| warning.name == "unbounded-blocking"));
}

/// `high` waits for m, whose holder `middle` waits inside for n, which `low` holds; `high` never locks n itself.
#[test]
fn blocking_passes_through_a_mutex_that_is_locked_inside_another() {
    let task = |name: &str, priority: u32, events: &str, period: u32| {
        format!(
            "\"{name}\": {{\"priority\": {priority}, \"cpus\": [0], {events}, \
             \"timer\": {{\"ref\": \"unique\", \"period\": {period}}}}}"
        )
    };
    let text = |global: &str| {
        format!(
            "{{\"tasks\": {{{}, {}, {}}}, \"global\": {{\"default_policy\": \"SCHED_FIFO\"{global}}}}}",
            task("high", 9, "\"lock\": \"m\", \"run\": 1, \"unlock\": \"m\"", 100),
            task(
                "middle",
                5,
                "\"lock\": \"m\", \"run\": 2, \"lock1\": \"n\", \"run1\": 3, \"unlock\": \"n\", \"unlock1\": \"m\"",
                200
            ),
            task("low", 1, "\"lock\": \"n\", \"run\": 7, \"unlock\": \"n\"", 300),
        )
    };
    let analysis = analyse(&read(&text(", \"pi_enabled\": true")), Costs::default());
    let us = |at: usize| {
        let row = &analysis.rows[at];
        (row.blocking.0 / 1_000, row.response.map(|ns| ns.0 / 1_000))
    };
    // low locks n; middle preempts it, works 2 in m and waits for n; high waits 7 for low and 3 for the rest of middle.
    assert_eq!((us(0), us(1)), ((5 + 7, Some(13)), (7, Some(13))));
    // The other way around in low: middle and low can wait for each other, and high for middle.
    let crossed = text(", \"pi_enabled\": true").replace(
        "\"lock\": \"n\", \"run\": 7, \"unlock\": \"n\"",
        "\"lock\": \"n\", \"run\": 7, \"lock1\": \"m\", \"run1\": 1, \"unlock1\": \"m\", \"unlock\": \"n\"",
    );
    let analysis = analyse(&read(&crossed), Costs::default());
    assert!(analysis.rows.iter().all(|row| row.response.is_none() && !row.schedulable));
    assert!(analysis.warnings.iter().any(|warning| warning.text.contains("deadlock")));
}

#[test]
fn a_thread_without_a_period_makes_no_claim_for_itself_or_below() {
    let text = "{\"tasks\": {
        \"top\": {\"priority\": 9, \"run\": 5, \"timer\": {\"ref\": \"unique\", \"period\": 100}},
        \"wild\": {\"priority\": 5, \"run\": 5, \"sem_wait\": \"s\"},
        \"under\": {\"priority\": 1, \"run\": 5, \"timer\": {\"ref\": \"unique\", \"period\": 100}}},
        \"global\": {\"default_policy\": \"SCHED_FIFO\"}}";
    let analysis = analyse(&read(text), Costs::default());
    assert_eq!(
        analysis.rows.iter().map(|row| row.response.is_some()).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert!(
        !analysis.edf.schedulable && analysis.warnings.iter().any(|warning| warning.name == "edf-undecided")
    );
}

#[test]
fn cpus_are_analysed_one_by_one_and_ten_thousand_tasks_are_bearable() {
    let text = fifo(&[("a", 2, 6, 10, ", \"cpus\": [0]"), ("b", 1, 6, 10, ", \"cpus\": [1]")]);
    let analysis = analyse(&read(&text), Costs::default());
    assert!(analysis.rows.iter().all(|row| row.schedulable) && analysis.edf.schedulable);
    let many: Vec<(String, u64)> = (0..10_000).map(|at| (format!("t{at}"), 20_000_000 + at * 7)).collect();
    let many: Vec<_> = many
        .iter()
        .map(|(name, period)| (name.as_str(), 1 + (period % 98) as i32, 1_000, *period, ""))
        .collect();
    let analysis = analyse(&read(&fifo(&many)), Costs::default());
    assert!(analysis.rows.len() == 10_000 && analysis.rows.iter().all(|row| row.schedulable));
}

#[test]
fn sensitivity_is_the_edge_and_costs_come_on_top() {
    let set = read(&fifo(&[("a", 2, 2_000, 10_000, ""), ("b", 1, 4_000, 20_000, "")]));
    let margins = margins(&set, Costs::default());
    // Under fixed priorities b has 20 − 2 × 2 ms; a may grow until 2 C + 4 ms = 20 ms.
    let near = |found: Option<Ns>, us: u64| (found.unwrap().0 as i64 - us as i64 * 1_000).abs() <= 1_000;
    assert!(near(margins[0].fixed, 8_000) && near(margins[1].fixed, 16_000), "{margins:?}");
    assert!(near(margins[0].edf, 8_000) && near(margins[1].edf, 16_000), "{margins:?}");
    let costly = analyse(&set, Costs { switch: Ns::from_us(5) });
    assert_eq!(costly.rows[0].response, Some(Ns::from_us(2_010)));
}

#[test]
fn work_is_that_of_the_longest_job_of_any_phase() {
    let timer = "\"timer\": {\"ref\": \"unique\", \"period\": 100}";
    let text = one(&format!("\"phases\": {{\"a\": {{\"run\": 3, {timer}, \"run1\": 4}}, \"b\": {{\"loop\": 2, \"run\": 5, {timer}}}}}"));
    let analysis = analyse(&read(&text), Costs::default());
    assert_eq!(analysis.rows[0].response, Some(Ns::from_us(9)), "4 of phase a and 5 of phase b are one job");
    let text = one("\"run\": 10, \"sleep\": 30");
    let analysis = analyse(&read(&text), Costs::default());
    assert_eq!(
        (analysis.rows[0].response, analysis.rows[0].deadline),
        (Some(Ns::from_us(10)), Some(Ns::from_us(40)))
    );
}

#[test]
fn a_holder_that_waits_and_a_second_timer_leave_nothing_to_claim() {
    let timer = |name: &str| format!("\"timer\": {{\"ref\": \"{name}\", \"period\": 100}}");
    let unique = timer("unique");
    let set = |low: &str| {
        format!(
            "{{\"tasks\": {{\"high\": {{\"priority\": 9, \"cpus\": [0], \"run\": 1, \"lock\": \"m\", \"run1\": 1, \"unlock\": \"m\",
             {unique}}}, \"low\": {{\"priority\": 1, \"cpus\": [0], {low}}}}},
             \"global\": {{\"default_policy\": \"SCHED_FIFO\", \"pi_enabled\": true}}}}"
        )
    };
    let responses = |low: String| -> Vec<bool> {
        let analysis = analyse(&read(&set(&low)), Costs::default());
        analysis.rows.iter().map(|row| row.response.is_some()).collect()
    };
    assert_eq!(responses(format!("\"lock\": \"m\", \"run\": 4, \"unlock\": \"m\", {unique}")), [true, true]);
    let across = format!("\"run\": 1, \"lock\": \"m\", \"run1\": 4, {unique}, \"unlock\": \"m\"");
    assert_eq!(responses(across), [false, true], "it holds the mutex through its period");
    let waiting = format!("\"lock\": \"m\", \"sem_wait\": \"s\", \"unlock\": \"m\", {unique}");
    assert_eq!(responses(format!("{waiting}, \"wcet\": 5")), [false, false], "a wcet does not bound a wait");
    let two =
        format!("\"run\": 4, {unique}, \"run1\": 5, \"timer1\": {{\"ref\": \"unique2\", \"period\": 100}}");
    assert_eq!(responses(two), [true, false], "two timers expire together");
}

#[test]
fn fair_tasks_below_real_time_ones_delay_each_other() {
    let timer = |period: u32| format!("\"timer\": {{\"ref\": \"unique\", \"period\": {period}}}");
    let text = format!(
        "{{\"tasks\": {{\"rt\": {{\"policy\": \"SCHED_FIFO\", \"priority\": 9, \"run\": 5, {}}},
         \"a\": {{\"run\": 5, {}}}, \"b\": {{\"run\": 7, {}}}}}}}",
        timer(100),
        timer(100),
        timer(200)
    );
    let analysis = analyse(&read(&text), Costs::default());
    let us: Vec<_> = analysis.rows.iter().map(|row| row.response.map(|ns| ns.0 / 1_000)).collect();
    assert_eq!(us, [Some(5), Some(17), Some(17)]);
}

#[test]
fn a_set_of_more_events_or_held_mutexes_than_can_be_analysed_is_refused_with_its_limit() {
    let timer = r#""timer": {"ref": "unique", "period": 1000}"#;
    let locks = |count: usize| {
        let locked: String = (0..count).map(|n| format!(r#""lock{n}": "m{n}", "#)).collect();
        let unlocked: String = (0..count).map(|n| format!(r#""unlock{n}": "m{n}", "#)).collect();
        format!(r#"{{"tasks": {{"a": {{{locked}{unlocked}{timer}}}}}}}"#)
    };
    assert!(refused(&locks(17)).contains("locks \"m16\" while it holds 16 others"));
    assert_eq!(super::load::loads(&read(&locks(16))).threads[0].sections.len(), 16);
    let many = locks(16)
        .replacen('{', r#"{"global": {}, "#, 1)
        .replace(r#""a": {"#, r#""a": {"instance": 100000, "#);
    assert_eq!(refused(&many), "tasks: more than 500000 events of all threads");
}

#[test]
fn a_set_with_too_many_critical_sections_is_not_decided_and_does_not_take_hours() {
    let section = |n| format!(r#""lock{n}": "m{n}", "cputime{n}": 1, "unlock{n}": "m{n}", "#);
    let sections: String = (0..50).map(section).collect();
    let timer = r#""timer": {"ref": "unique", "period": 100000000}"#;
    let task = format!(r#""instance": 700, "policy": "SCHED_FIFO", "cpus": [0], {sections}{timer}"#);
    let text = format!(r#"{{"tasks": {{"a": {{{task}}}}}}}"#);
    let found = analyse(&read(&text), Costs::default());
    assert!(found.rows.iter().all(|row| !row.schedulable) && !found.edf.schedulable, "not decided");
    assert!(found.warnings.iter().any(|warning| warning.text.contains("too many critical sections")));
}
