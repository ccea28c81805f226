//! Lines as people paste them.

use super::*;

const EVENT: &str = "          <idle>-0       [001] d.h1.  3469.824588: softirq_entry: vec=9 [action=RCU]";

#[test]
fn what_pasting_put_before_lines_is_taken_away() {
    let prefixes = [
        "> > ",
        "| ",
        "[   12.345678] ",
        "[   12.345678][    T1] ",
        "2024-10-22T09:41:07.123456  ",
        "2024-10-22 09:41:07.1 ",
        "Nov 25 12:00:01 host kernel: [    1.000000] ",
        "> 12:00:01.123 ",
        "Nov 25 12:00:01 ",
        "[2024-10-22 09:41:07] ",
        "2024-10-22T09:41:07.123456+02:00 host kernel: ",
        "<6>[   12.345678] ",
        "\u{1b}[2;37m",
    ];
    for prefix in prefixes {
        let pasted = format!("{prefix}# tracer: nop\r\n{prefix}#\r\n{prefix}{EVENT}\r\n");
        let tidy = text(pasted.as_bytes());
        assert!(matches!(parse(tidy.lines().nth(2).unwrap()), Some(Line::Event(_))), "{prefix}: {tidy}");
    }
}

#[test]
fn words_around_a_trace_are_no_part_of_it() {
    let around = [
        ("Hello,\n\nsee below:\n```\n", "```\nAny idea?\n"),
        ("Hi all,\n", ""),
        ("Hi, with 5.10 it takes 300us because of this:\n", "\nRegards,\nA. B.\n"),
        ("", "\nIt is the same with 6.1, see above.\n"),
        ("{code:title=trace}\n", "{code}\n"),
    ];
    for (before, after) in around {
        let pasted = format!("{before}# tracer: nop\n{EVENT}\n{after}");
        let tidy = text(pasted.as_bytes());
        let left: Vec<&str> = tidy.lines().filter(|line| !line.trim().is_empty()).collect();
        assert_eq!(left, ["# tracer: nop", EVENT], "{before}");
    }
}

#[test]
fn numbers_of_lines_stand_before_stacks_too() {
    let lines = ["# tracer: nop", EVENT, " => schedule", " => kthread", EVENT];
    let whole: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let numbered = |form: fn(usize) -> String| {
        let lines = lines.iter().enumerate();
        text(lines.map(|(at, line)| form(at + 9) + line + "\n").collect::<String>().as_bytes()).into_owned()
    };
    assert_eq!(numbered(|number| format!("{number:>6}\t")), whole);
    assert_eq!(numbered(|number| format!("{number}:")), whole);
}

#[test]
fn the_markup_of_a_page_is_decoded() {
    let switch = "a-7 [000] d..2. 10.000100: sched_switch: a:7 [9] S ==> x:8 [120]\n";
    assert_eq!(text(switch.replace('>', "&gt;").as_bytes()), switch);
    let named = "a-7 [000] d..2. 10.000100: sched_waking: comm=&gt;a pid=9 prio=120 target_cpu=000\n";
    assert_eq!(text(named.as_bytes()), named);
}

#[test]
fn events_that_a_mail_program_has_broken_are_joined() {
    let switch = "rt-7 [000] d..2. 10.000100: sched_switch: prev_comm=rt prev_pid=7 prev_prio=9 prev_state=S ==> next_comm=x next_pid=8 next_prio=120";
    let broken = switch.replace(" prev_pid", "\nprev_pid").replace(" ==>", "\n==>");
    let tidy = text(format!("> {}\n", broken.replace('\n', "\n> ")).as_bytes()).into_owned();
    assert_eq!(tidy.trim(), switch);
    let stack = format!("> {switch}\n>  => schedule\n>  => kthread\n");
    assert_eq!(text(stack.as_bytes()).lines().count(), 3, "a stack is none of its fields");
}

#[test]
fn lines_of_a_tracer_that_mail_has_broken_or_encoded_are_whole_again() {
    let broken = "# latency: 9 us, #1/1, CPU#3 | (M:preempt VP:0, KP:0,\nSP:0 HP:0 #P:4)\nks-27 3.Ns1 5us : test_clear\n<-end_page\nkw/-11 0dnh5. 7us : 11:120:R + [000]      22: \n98:R irq_work/0\n";
    let whole = [
        "# latency: 9 us, #1/1, CPU#3 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:4)",
        "ks-27 3.Ns1 5us : test_clear <-end_page",
        "kw/-11 0dnh5. 7us : 11:120:R + [000]      22:  98:R irq_work/0",
    ];
    assert_eq!(text(broken.as_bytes()).lines().collect::<Vec<_>>(), whole);
    let encoded = "# =3D> CPU#\nks-27 3.Ns1 5us : test_clear <-end_=\npage\n =3D> do_syscall\n";
    assert_eq!(
        text(encoded.as_bytes()),
        "# => CPU#\nks-27 3.Ns1 5us : test_clear <-end_page\n => do_syscall\n"
    );
    let named = "rt-7 [000] d..2. 10.000100: sched_waking: comm=3Dprint pid=9 prio=120 target_cpu=000\n";
    assert_eq!(text(named.as_bytes()), named);
}

#[test]
fn what_a_logger_puts_before_each_line_is_learned_from_the_heading() {
    for before in [
        "2025-01-02 10:11:12,345 INFO  dut: ",
        "[2025-01-02T10:11:12.345Z] ",
        "+",
        "app-1  | ",
        "Jan 02 10:11:12 host cat[1234]: ",
    ] {
        let later = before.replace("12", "59");
        let pasted = format!("{before}# tracer: nop\n{later}#\n{later}{EVENT}\n");
        let tidy = text(pasted.as_bytes()).into_owned();
        assert_eq!(tidy, format!("# tracer: nop\n#\n{EVENT}\n"), "{before}");
    }
}

#[test]
fn the_trace_of_systrace_is_taken_out_of_its_page() {
    let switch = "a-7 [000] d..2. 10.000100: sched_switch: prev_comm=a prev_pid=7 prev_prio=9 prev_state=S ==> next_comm=x next_pid=8 next_prio=120";
    let trace = format!("# tracer: nop\n{EVENT}\n{switch}\n");
    let page = |inside: &str| {
        format!(
            "<!DOCTYPE html>\n<html>\n<script>if (/^# tracer:/.exec(a)) x = 1;</script>\n{inside}</html>\n"
        )
    };
    let new = page(&format!("<script class=\"trace-data\">\nPROCESS DUMP\n</script>\n<script class=\"trace-data\">\n{}</script>\n<script>y();</script>", trace.replace('>', "&gt;")));
    assert_eq!(text(new.as_bytes()), trace);
    let old = page(&format!(
        "<script>\nvar linuxPerfData = \"\\\n{}\";\n</script>",
        trace.replace('\n', "\\n\\\n")
    ));
    assert_eq!(text(old.as_bytes()), trace);
}

#[test]
fn other_encodings_are_read_and_a_plain_text_is_not_touched() {
    let wide: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(EVENT.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    assert_eq!(text(&wide), EVENT);
    assert_eq!(text(&wide[2..]), EVENT, "without a mark");
    assert_eq!(bytes(&wide), EVENT.as_bytes());
    assert_eq!(text(format!("{EVENT}\r{EVENT}").as_bytes()).lines().count(), 2);
    assert!(matches!(parse(&text(EVENT.replace(' ', "\u{a0}").as_bytes())), Some(Line::Event(_))));
    let marked = format!("\u{feff}{EVENT}");
    assert_eq!(text(marked.as_bytes()), EVENT);
    assert!(matches!(text(EVENT.as_bytes()), Cow::Borrowed(EVENT)));
}

#[test]
fn the_time_of_a_console_is_no_part_of_a_threads_name() {
    let dumped = "[   56.900001] Dumping ftrace buffer:
[   56.900010] ---------------------------------
[   56.900020]   <idle>-0         1d.h2 1000100us : sched_waking: comm=rt_task pid=55 prio=19 target_cpu=001
[   56.900040]  rt_task-55        1d..2 1000950us : sched_switch: prev_comm=rt_task prev_pid=55 prev_prio=19 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120
[   56.900050] ---------------------------------
";
    let text = text(dumped.as_bytes());
    let comms: Vec<&str> = text
        .lines()
        .filter_map(|line| match parse(line) {
            Some(Line::Event(event)) => Some(event.comm),
            Some(Line::Comment) => None,
            other => panic!("{line}: {other:?}"),
        })
        .collect();
    assert_eq!(comms, ["<idle>", "rt_task"]);
}

#[test]
fn words_that_mail_has_broken_off_a_marker_are_its_own() {
    let wrapped = "> cyclictest-812   [001] .......  1000.000400: sched_waking: comm=cyclictest
> pid=812 prio=9 target_cpu=001
> cyclictest-812   [001] .......  1000.000410: print: tracing_mark_write:
> hit latency threshold (310 > 300)
";
    let text = text(wrapped.as_bytes());
    assert!(
        text.lines().any(|line| line.ends_with("tracing_mark_write: hit latency threshold (310 > 300)")),
        "{text}"
    );
}

/// The CPU of a hwlat line is before the break, and its figures after it.
#[test]
fn wrapped_lines_of_any_form_are_joined() {
    let lines = [
        "# tracer: hwlat",
        "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION",
        "           <...>-1729    [001] d..1.   678.473449: #1     inner/outer(us):   11/12    ts:1480603.123456789 count:3 nmi-total:8 nmi-count:1",
        "           <...>-1729    [001] d..1.   689.556542: #2     inner/outer(us):   16/9     ts:1480614.123456789 count:1",
    ];
    let single = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let whole: Vec<String> = lines.iter().map(|line| single(line)).collect();
    for width in [60, 72, 76, 80, 100] {
        let hard: String = lines
            .iter()
            .flat_map(|line| line.as_bytes().chunks(width))
            .map(|part| String::from_utf8_lossy(part).into_owned() + "\n")
            .collect();
        let soft = |line: &&str| {
            let mut rows = vec![String::new()];
            for word in line.split(' ') {
                let last = rows.last_mut().unwrap();
                match last.len() + 1 + word.len() > width && !last.trim().is_empty() {
                    true => rows.push(word.to_owned()),
                    false => *last += &format!(" {word}"),
                }
            }
            rows.iter().map(|row| format!("> {}\n", row.strip_prefix(' ').unwrap_or(row))).collect::<String>()
        };
        let soft: String = lines.iter().map(soft).collect();
        // Two breaks at another width than those of terminals may be of a mail program, too.
        let hard = matches!(width, 60 | 80 | 100).then_some(hard);
        for broken in hard.into_iter().chain([soft]) {
            let tidy = text(broken.as_bytes()).into_owned();
            assert_eq!(tidy.lines().map(single).collect::<Vec<_>>(), whole, "{width}: {broken}");
        }
    }
    let prose = format!("{EVENT}\nAny idea what this may be?\n");
    assert_eq!(text(prose.as_bytes()).lines().next(), Some(EVENT), "prose is not the rest of a line");
}

#[test]
fn tabs_and_runs_of_blanks_separate_columns_like_blanks() {
    let lines = "          dd-7       [001] d.h1.  3469.824588: a_function <-b\n          dd-7       [001] d.h1.  3469.824589: c <-d\n";
    for (from, to) in [("  ", "\t"), (" ", "\t"), (" ", "  ")] {
        let tidy = text(lines.replace(from, to).as_bytes()).into_owned();
        let events: Vec<_> = tidy.lines().map(parse).collect();
        let Some(Line::Event(event)) = events[0] else { panic!("{to:?}: {tidy}") };
        assert_eq!(
            (event.comm, event.tid, event.cpu, event.fields),
            ("dd", 7, 1, "a_function <-b"),
            "{to:?}"
        );
    }
}

#[test]
fn names_of_files_and_counts_before_lines_are_taken_away() {
    let lines = ["# tracer: nop", "#", EVENT, EVENT, " => schedule"];
    let whole: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let forms: [fn(usize, &str) -> String; 6] = [
        |_, line| format!("trace.txt:{line}"),
        |at, line| format!("a/trace.txt:{}:{line}", at + 8),
        |at, line| format!("{}{}{line}", at + 8, if at % 2 == 0 { '-' } else { ':' }),
        |at, line| format!("{:3} {line}", at + 8),
        |_, line| format!("      1 {line}"),
        |_, line| format!("|{line}|"),
    ];
    for form in forms {
        let pasted: String = lines.iter().enumerate().map(|(at, line)| form(at, line) + "\n").collect();
        assert_eq!(text(pasted.as_bytes()), whole, "{pasted}");
    }
    // The threads of one kworker, without a heading.
    let named = "kworker/0:1-12      [000] d.h1.  3469.824588: softirq_entry: vec=9 [action=RCU]\n".repeat(3);
    assert_eq!(text(named.as_bytes()), named);
}

/// The break took more than one blank with it.
#[test]
fn a_break_among_several_blanks_is_joined() {
    let broken = "             bash-224     [000] d.h..   153.268917: #77645 context \nirq timer_latency     45056 ns\n             \
                bash-224     [000] dnh..   153.268987: irq_noise: timer:206 \nstart 153.268879083 duration 93957 ns\n             \
                bash-224     [000] d....   153.269056: thread_noise: \nbash:224 start 153.268905324 duration 71045 ns\n       \
                timerlat/0-271     [000] .....   153.269103: #77645 context \nthread timer_latency    230656 ns\n       \
                timerlat/0-271     [000] .....   153.270155: timerlat_main: stop \ntracing hit on cpu 0\n\nIt looks awful, right ?\nJM\n";
    let whole = text(broken.as_bytes());
    for line in
        ["#77645 context irq timer_latency     45056 ns", "#77645 context thread timer_latency    230656 ns"]
    {
        assert!(whole.contains(line), "{whole}");
    }
}
