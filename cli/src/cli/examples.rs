//! EXAMPLES of each manual page. `cli/tests/first_hour/examples.rs` runs them.

/// Examples of a page (`lathunt`, `lathunt-isolate-plan`): the command line, and what it does.
pub fn of(page: &str) -> &'static [(&'static str, &'static str)] {
    let found = EXAMPLES.iter().find(|(name, _)| *name == page);
    found.map_or(&[], |(_, examples)| examples)
}

type Examples = &'static [(&'static str, &'static str)];

const EXAMPLES: &[(&str, Examples)] = &[
    (
        "lathunt",
        &[
            ("lathunt check", "Check whether this machine is set up for real time."),
            (
                "lathunt hunt -D 60s --deadline 100us",
                "Measure the machine under load, explain the worst cases, give a verdict.",
            ),
            ("lathunt record --deadline 1ms -- ./app", "Find late threads of a program, and the causes."),
            ("lathunt explain trace.dat", "Explain the worst wake-up in a recorded trace."),
        ],
    ),
    (
        "lathunt-hunt",
        &[
            (
                "lathunt hunt -D 60s --deadline 100us",
                "Measure all CPUs for one minute; verdict, and a report in lathunt-DATE-TIME.",
            ),
            (
                "lathunt hunt -D 10m -c 1 --deadline 50us --require-verdict -q -o nightly",
                "For CI: exit status 0 (within the deadline), 2 (exceeded) or 3 (inconclusive).",
            ),
        ],
    ),
    (
        "lathunt-cyclic",
        &[
            ("lathunt cyclic -D 60s -c 1 --deadline 100us", "Measure the cyclic latency of CPU 1."),
            ("lathunt cyclic -D 60s -b 5ms", "Stop at the first latency above 5 ms and print its cause."),
        ],
    ),
    ("lathunt-check", &[("lathunt check", "List the findings, and how to fix them.")]),
    (
        "lathunt-hwlat",
        &[("lathunt hwlat -D 60s --threshold 10us", "Find gaps of at least 10 us, with their causes.")],
    ),
    ("lathunt-npt", &[("lathunt npt -c 1 -n 1e7", "Measure the gaps of a busy loop on CPU 1.")]),
    ("lathunt-clock", &[("lathunt clock -n 1e5", "Measure the cost of reading each clock.")]),
    (
        "lathunt-record",
        &[
            ("lathunt record --deadline 1ms -- ./app", "Start a program and judge each of its threads."),
            ("lathunt record -D 10s", "Record all real-time tasks of the running system for 10 s."),
            (
                "lathunt record -D 10s --tasks 'comm:control*' --deadline 500us",
                "Record threads selected by name.",
            ),
        ],
    ),
    (
        "lathunt-explain",
        &[
            ("lathunt explain trace.dat", "Explain the worst wake-up of a real-time thread."),
            (
                "lathunt explain trace.dat --wakeups --comm 'pty*' --worst 3",
                "Explain the three worst wake-ups of threads with matching names.",
            ),
            ("lathunt explain trace.dat --summary", "Summarize the trace."),
            (
                "cat trace.dat | lathunt explain - --periods",
                "List periodic threads; the trace is read from a pipe.",
            ),
        ],
    ),
    (
        "lathunt-trace",
        &[
            (
                "lathunt trace -o recorded -D 10s",
                "Record kernel events for 10 s, for `lathunt explain recorded`.",
            ),
            ("lathunt trace -o around --flight -- ./app", "Keep the newest events until a program exits."),
        ],
    ),
    (
        "lathunt-trace-start",
        &[("lathunt trace start -o session", "Start to record instrumented programs in the background.")],
    ),
    ("lathunt-trace-stop", &[("lathunt trace stop", "End the session.")]),
    ("lathunt-trace-status", &[("lathunt trace status", "Show the state of the session.")]),
    ("lathunt-trace-snapshot", &[("lathunt trace snapshot", "Write the current contents of the rings.")]),
    (
        "lathunt-trace-recover",
        &[("lathunt trace recover -o rescued", "Write the events that dead programs left in memory.")],
    ),
    ("lathunt-trace-enable", &[("lathunt trace enable 'control:*'", "Enable events by name.")]),
    ("lathunt-trace-disable", &[("lathunt trace disable 'control:*'", "Disable events by name.")]),
    (
        "lathunt-monitor",
        &[(
            "lathunt monitor --deadline 'control*=1ms,*=none'",
            "Monitor the production system; metrics for Prometheus are on port 9745.",
        )],
    ),
    (
        "lathunt-history",
        &[("lathunt history --database windows.sqlite", "Show the maxima of each window, with causes.")],
    ),
    ("lathunt-munin", &[("lathunt munin config", "Print the configuration that munin-node requests.")]),
    (
        "lathunt-inject",
        &[(
            "lathunt inject irqoff -c 1 --length 100us -n 5",
            "Disable interrupts on CPU 1 five times for 100 us.",
        )],
    ),
    (
        "lathunt-box",
        &[
            (
                "lathunt box --pair futex -D 5s",
                "Measure round trips between two threads that wake each other by a futex.",
            ),
            (
                "lathunt box udp:192.168.1.2:4711 -D 60s",
                "Measure a machine that runs `lathunt respond udp:0.0.0.0:4711`.",
            ),
        ],
    ),
    (
        "lathunt-respond",
        &[("lathunt respond udp:0.0.0.0:4711", "Answer the stimuli of a box on another machine.")],
    ),
    (
        "lathunt-plot",
        &[
            ("lathunt plot run.lathunt.json -o plot.svg", "Plot the latencies of a run."),
            (
                "lathunt plot before.lathunt.json after.lathunt.json -o - > both.svg",
                "Overlay two runs, in different colours.",
            ),
        ],
    ),
    ("lathunt-report", &[("lathunt report run.lathunt.json --text", "Print the summary of a run.")]),
    (
        "lathunt-compare",
        &[
            (
                "lathunt compare before.lathunt.json after.lathunt.json",
                "Compare the figures and conditions of two runs.",
            ),
            (
                "lathunt compare before.lathunt.json after.lathunt.json --plot both.html",
                "Also plot both runs.",
            ),
        ],
    ),
    (
        "lathunt-merge",
        &[(
            "lathunt merge before.lathunt.json after.lathunt.json -o all.lathunt.json",
            "Merge two runs into one.",
        )],
    ),
    (
        "lathunt-import",
        &[(
            "lathunt import cyclictest.txt -o imported.lathunt.json",
            "Convert the output of cyclictest into a run.",
        )],
    ),
    (
        "lathunt-bound",
        &[(
            "lathunt bound run.lathunt.json",
            "Print the observed, bounded and extrapolated latencies, with the gates.",
        )],
    ),
    ("lathunt-isolate", &[("lathunt isolate plan -c 1", "Show the planned changes for CPU 1.")]),
    ("lathunt-isolate-plan", &[("lathunt isolate plan -c 1", "Show the planned changes for CPU 1.")]),
    (
        "lathunt-isolate-apply",
        &[("lathunt isolate apply -c 1", "Isolate CPU 1 until `lathunt isolate restore` or the next boot.")],
    ),
    ("lathunt-isolate-run", &[("lathunt isolate run -c 1 -- ./app", "Isolate CPU 1 while a program runs.")]),
    (
        "lathunt-isolate-verify",
        &[("lathunt isolate verify -c 1 -D 10s", "Isolate CPU 1 and verify the isolation under load.")],
    ),
    ("lathunt-isolate-status", &[("lathunt isolate status", "Show the isolated CPUs.")]),
    ("lathunt-isolate-restore", &[("lathunt isolate restore", "Restore everything.")]),
    ("lathunt-restore", &[("lathunt restore", "Restore settings that a killed lathunt left changed.")]),
    ("lathunt-tasks", &[("lathunt tasks analyse set.json", "Analyse whether the set meets its deadlines.")]),
    (
        "lathunt-tasks-analyse",
        &[(
            "lathunt tasks analyse set.json",
            "Compute response times under fixed priorities, and the demand under EDF.",
        )],
    ),
    (
        "lathunt-tasks-run",
        &[("lathunt tasks run set.json -D 5s", "Run the set for 5 s: response times and missed deadlines.")],
    ),
    (
        "lathunt-tasks-compare",
        &[("lathunt tasks compare set.json -D 1s", "Run the set under each scheduler for 1 s.")],
    ),
    ("lathunt-tasks-generate", &[("lathunt tasks generate", "Print a random task set as JSON.")]),
    (
        "lathunt-tasks-convert",
        &[("lathunt tasks convert set.json", "Print the set as strict JSON for rt-app.")],
    ),
    (
        "lathunt-completions",
        &[("lathunt completions bash > lathunt.bash", "Write the completion script for bash.")],
    ),
];
