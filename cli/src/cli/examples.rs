//! EXAMPLES of each manual page. `cli/tests/first_hour/examples.rs` runs them.

/// Of a page (`lathunt`, `lathunt-isolate-plan`): what is typed, and what that does.
pub fn of(page: &str) -> &'static [(&'static str, &'static str)] {
    let found = EXAMPLES.iter().find(|(name, _)| *name == page);
    found.map_or(&[], |(_, examples)| examples)
}

type Examples = &'static [(&'static str, &'static str)];

const EXAMPLES: &[(&str, Examples)] = &[
    (
        "lathunt",
        &[
            ("lathunt check", "Is this machine set up for real time?"),
            (
                "lathunt hunt -D 60s --deadline 100us",
                "Measure it under load, explain the worst cases, give a verdict.",
            ),
            ("lathunt record --deadline 1ms -- ./app", "Which threads of a program are late, and why?"),
            ("lathunt explain trace.dat", "Where did the time go in a recorded trace?"),
        ],
    ),
    (
        "lathunt-hunt",
        &[
            (
                "lathunt hunt -D 60s --deadline 100us",
                "One minute on all CPUs, with a verdict and a report in lathunt-DATE-TIME.",
            ),
            (
                "lathunt hunt -D 10m -c 1 --deadline 50us --require-verdict -q -o nightly",
                "In CI: the exit status is 0 (within), 2 (exceeded) or 3 (inconclusive).",
            ),
        ],
    ),
    (
        "lathunt-cyclic",
        &[
            ("lathunt cyclic -D 60s -c 1 --deadline 100us", "How late does a thread on CPU 1 wake up?"),
            ("lathunt cyclic -D 60s -b 5ms", "Stop at the first latency above 5 ms, and say why."),
        ],
    ),
    ("lathunt-check", &[("lathunt check", "What is set up, what is not, and how to fix it.")]),
    ("lathunt-hwlat", &[("lathunt hwlat -D 60s --threshold 10us", "Gaps that no software explains.")]),
    ("lathunt-npt", &[("lathunt npt -c 1 -n 1e7", "Every gap of a busy loop on CPU 1, with its cause.")]),
    ("lathunt-clock", &[("lathunt clock -n 1e5", "What a reading of each clock costs.")]),
    (
        "lathunt-record",
        &[
            ("lathunt record --deadline 1ms -- ./app", "Start a program and judge each of its threads."),
            ("lathunt record -D 10s", "All real-time tasks of the running system."),
            ("lathunt record -D 10s --tasks 'comm:control*' --deadline 500us", "Threads by their names."),
        ],
    ),
    (
        "lathunt-explain",
        &[
            ("lathunt explain trace.dat", "The worst wake-up of a real-time thread, and its cause."),
            (
                "lathunt explain trace.dat --wakeups --comm 'pty*' --worst 3",
                "The three worst of some threads.",
            ),
            ("lathunt explain trace.dat --summary", "What is in the trace."),
            ("cat trace.dat | lathunt explain - --periods", "Periodic threads, through a pipe."),
        ],
    ),
    (
        "lathunt-trace",
        &[
            (
                "lathunt trace -o recorded -D 10s",
                "The kernel's events for 10 s; `lathunt explain recorded` answers.",
            ),
            ("lathunt trace -o around --flight -- ./app", "The newest events, until a program ends."),
        ],
    ),
    (
        "lathunt-trace-start",
        &[("lathunt trace start -o session", "Record instrumented programs from now on.")],
    ),
    ("lathunt-trace-stop", &[("lathunt trace stop", "End the session.")]),
    ("lathunt-trace-status", &[("lathunt trace status", "What the session has recorded so far.")]),
    ("lathunt-trace-snapshot", &[("lathunt trace snapshot", "Write what the rings hold now.")]),
    ("lathunt-trace-recover", &[("lathunt trace recover -o rescued", "Write what dead programs have left.")]),
    ("lathunt-trace-enable", &[("lathunt trace enable 'control:*'", "Switch events on by their names.")]),
    ("lathunt-trace-disable", &[("lathunt trace disable 'control:*'", "Switch them off.")]),
    (
        "lathunt-monitor",
        &[(
            "lathunt monitor --deadline 'control*=1ms,*=none'",
            "Watch the production system; Prometheus reads port 9745.",
        )],
    ),
    (
        "lathunt-history",
        &[("lathunt history --database windows.sqlite", "The maxima of each window, and who is to blame.")],
    ),
    ("lathunt-munin", &[("lathunt munin config", "The plug-in's answer to munin-node.")]),
    (
        "lathunt-inject",
        &[(
            "lathunt inject irqoff -c 1 --length 100us -n 5",
            "Interrupts off on CPU 1, five times for 100 us.",
        )],
    ),
    (
        "lathunt-box",
        &[
            ("lathunt box --pair futex -D 5s", "From a futex's wake to the other thread's answer."),
            (
                "lathunt box udp:192.168.1.2:4711 -D 60s",
                "A machine that runs `lathunt respond udp:0.0.0.0:4711`.",
            ),
        ],
    ),
    (
        "lathunt-respond",
        &[("lathunt respond udp:0.0.0.0:4711", "Answer the stimuli of another machine's box.")],
    ),
    (
        "lathunt-plot",
        &[
            ("lathunt plot run.lathunt.json -o plot.svg", "The latency plot of a run."),
            (
                "lathunt plot before.lathunt.json after.lathunt.json -o - > both.svg",
                "Two runs, one colour each.",
            ),
        ],
    ),
    ("lathunt-report", &[("lathunt report run.lathunt.json --text", "The summary of a run.")]),
    (
        "lathunt-compare",
        &[
            (
                "lathunt compare before.lathunt.json after.lathunt.json",
                "Figures side by side, and what else differs.",
            ),
            (
                "lathunt compare before.lathunt.json after.lathunt.json --plot both.html",
                "With the plot of both.",
            ),
        ],
    ),
    (
        "lathunt-merge",
        &[("lathunt merge before.lathunt.json after.lathunt.json -o all.lathunt.json", "Two runs as one.")],
    ),
    (
        "lathunt-import",
        &[("lathunt import cyclictest.txt -o imported.lathunt.json", "What cyclictest printed, as a run.")],
    ),
    (
        "lathunt-bound",
        &[("lathunt bound run.lathunt.json", "Observed, bounded and extrapolated, with the gates.")],
    ),
    ("lathunt-isolate", &[("lathunt isolate plan -c 1", "What would change, and what nobody can move.")]),
    (
        "lathunt-isolate-plan",
        &[("lathunt isolate plan -c 1", "What would change, and what nobody can move.")],
    ),
    (
        "lathunt-isolate-apply",
        &[("lathunt isolate apply -c 1", "Give CPU 1 to real time until `lathunt isolate restore`.")],
    ),
    ("lathunt-isolate-run", &[("lathunt isolate run -c 1 -- ./app", "For as long as a program runs.")]),
    ("lathunt-isolate-verify", &[("lathunt isolate verify -c 1 -D 10s", "What still comes to CPU 1?")]),
    ("lathunt-isolate-status", &[("lathunt isolate status", "What is isolated now.")]),
    ("lathunt-isolate-restore", &[("lathunt isolate restore", "Put everything back.")]),
    ("lathunt-restore", &[("lathunt restore", "Put back what a killed lathunt left changed.")]),
    ("lathunt-tasks", &[("lathunt tasks analyse set.json", "Can the set meet its deadlines?")]),
    (
        "lathunt-tasks-analyse",
        &[("lathunt tasks analyse set.json", "Response times under fixed priorities and EDF.")],
    ),
    (
        "lathunt-tasks-run",
        &[("lathunt tasks run set.json -D 5s", "Response times and misses of each thread.")],
    ),
    (
        "lathunt-tasks-compare",
        &[("lathunt tasks compare set.json -D 1s", "The set under each scheduler in turn.")],
    ),
    ("lathunt-tasks-generate", &[("lathunt tasks generate", "A random task set as JSON.")]),
    ("lathunt-tasks-convert", &[("lathunt tasks convert set.json", "The set in the newest form.")]),
    ("lathunt-completions", &[("lathunt completions bash > lathunt.bash", "Completion for a shell.")]),
];
