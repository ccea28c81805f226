use super::*;
use crate::cpuset::CpuSet;

fn read(line: &str) -> Result<Options, String> {
    words(&line.split_whitespace().collect::<Vec<_>>())
}

fn words(line: &[&str]) -> Result<Options, String> {
    parse(&line.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())
}

fn these(list: &str) -> Option<CpuSpec> {
    Some(CpuSpec::These(list.parse().unwrap()))
}

#[test]
fn the_command_lines_of_known_scripts_mean_what_they_meant() {
    // rteval: joined letters, and an option with its number in one word
    let rteval = words(&[
        "-i100",
        "-qmu",
        "-h 2000",
        "-p95",
        "-t4",
        "-a0-3",
        "--default-system",
        "-b50",
        "--tracemark",
    ]);
    let rteval = rteval.unwrap();
    assert_eq!((rteval.interval_us, rteval.histogram, rteval.priority), (100, Some(2_000), 95));
    assert_eq!((rteval.threads, rteval.affinity), (Threads::Count(4), these("0-3")));
    assert!(
        rteval.quiet && rteval.mlockall && rteval.unbuffered && rteval.default_system && rteval.tracemark
    );
    // OSADL
    let osadl = read("-l100000000 -m -Sp90 -i200 -h400 -q").unwrap();
    assert!(
        osadl.smp && osadl.policy == Policy::Fifo && osadl.loops == 100_000_000 && osadl.warnings.is_empty()
    );
    // workload-automation, with a unit and a prefix of a name
    let wa = read("--clock=0 --duration=30s --thread=8 --latency=1000000 --quiet").unwrap();
    assert_eq!((wa.duration_s, wa.threads, wa.latency_us), (30, Threads::Count(8), 1_000_000));
    // yardstick, with options that were removed
    let yardstick = read("-a 1 -b 1000 -i 1000 -p 99 -l 1000 -t 1 -h 90 -m -n -q --notrace").unwrap();
    assert_eq!((yardstick.affinity, yardstick.threads), (these("1"), Threads::Count(1)));
    assert_eq!(yardstick.warnings.len(), 2, "{:?}", yardstick.warnings);
    // Linaro
    let linaro = read("-q -p 98 -i 1000 -t 2 -a all -D 5m -h 100 -m --json=f.json").unwrap();
    assert_eq!((linaro.affinity, linaro.duration_s), (Some(CpuSpec::All), 300));
    assert_eq!(linaro.json, Some(b"f.json".to_vec()));
    // checkbox
    let checkbox = read("-a2-3 -t2 -m -p99 -i250 -h700 -q -D 30").unwrap();
    assert_eq!((checkbox.affinity, checkbox.duration_s), (these("2-3"), 30));
    // XaF/rteval
    assert!(read("--numa -i100 -qmu -h2000 -p95").unwrap().smp);
    assert_eq!(read("--prio=70").unwrap().priority, 70);
}

#[test]
fn what_cannot_be_meant_is_an_error_that_names_the_option() {
    for (line, needle) in [
        ("-i 0", "'-i'"),
        ("-c 2", "'-c'"),
        ("-l abc", "'-l' needs a number of loops"),
        ("-D abc", "'-D'"),
        ("-D 1m1", "'-D'"),
        ("-h 0", "'-h'"),
        ("-h -5", "'-h'"),
        ("-p 100", "'-p'"),
        ("-p -3", "'-p'"),
        ("-t0", "'-t'"),
        ("-o 3", "verbose"),
        ("--latency=abc", "'--latency'"),
        ("--policy=deadline", "'--policy'"),
        ("--nonsense", "unrecognized option '--nonsense'"),
        ("-z", "invalid option -- 'z'"),
        ("--pri=3", "ambiguous"),
        ("--json=", "file name"),
        ("-A1 --secaligned=2", "exclude"),
        ("-a x", "not an option"),
    ] {
        let result = read(line);
        let said = match &result {
            Err(error) => error.clone(),
            Ok(options) => options.warnings.join("; "),
        };
        assert!(said.contains(needle), "{line}: {said}");
        assert_eq!(result.is_ok(), line == "-a x", "{line}");
    }
}

#[test]
fn optional_arguments_are_found_in_the_next_word_as_well() {
    assert_eq!(read("-t 4").unwrap().threads, Threads::Count(4));
    assert_eq!(read("-t -q").unwrap().threads, Threads::PerCpu);
    assert_eq!(read("-t 0").unwrap().threads, Threads::PerCpu);
    assert_eq!(read("-a 0").unwrap().affinity, these("0"));
    assert_eq!(read("-a 0x1").unwrap().affinity, these("1"), "as libnuma reads it, and not a mask");
    assert_eq!(read("-a 010-0xB,0").unwrap().affinity, these("0,8-11"));
    assert!(read("-a 08").is_err() && read("-a 0xg").is_err());
    assert_eq!(read("-a -q").unwrap().affinity, Some(CpuSpec::Usable));
    assert_eq!(read("-A 100").unwrap().align, Align::Together(100));
    assert_eq!(read("--secaligned 50").unwrap().align, Align::Second(50));
    assert_eq!(read("-a 0 1").unwrap().warnings, ["'1' is not an option and is ignored"]);
}

#[test]
fn smp_takes_no_cpus_and_says_so() {
    assert!(read("-a 1 -S").unwrap_err().contains("-a and -S exclude each other"));
    assert!(read("-a --smp").unwrap_err().contains("--smp"));
    assert_eq!(read("-S -a 1").unwrap().warnings, ["-a ignored due to smp mode"]);
    assert!(read("-a -smp -p 80").unwrap().smp, "cyclictest does not read it as --smp");
}

#[test]
fn smp_with_one_dash_is_understood_and_warned_about() {
    let meant = read("-smp -p 80").unwrap();
    assert!(meant.smp && meant.priority == 80 && meant.warnings.len() == 1);
    let literal = read("-smp 80").unwrap();
    assert!(!literal.smp && literal.system && literal.mlockall && literal.priority == 80);
    assert_eq!(literal.warnings.len(), 1);
}

#[test]
fn cpu_lists_are_resolved_against_the_machine() {
    let allowed: CpuSet = "1-3".parse().unwrap();
    let online: CpuSet = "0-3".parse().unwrap();
    let resolve =
        |text: &str| CpuSpec::parse(text).unwrap().resolve(&allowed, &online).map(|set| set.to_string());
    assert_eq!(resolve("all"), Ok("0-3".into()));
    assert_eq!(resolve("!2"), Ok("1,3".into()));
    assert_eq!(resolve("+0-1"), Ok("1-2".into()));
    assert!(resolve("7").unwrap_err().contains("cpu argument 7 is out of range"));
    assert_eq!(resolve("0"), Ok("0".into()));
    assert!(resolve("!1-3").unwrap_err().contains("leaves none"));
}
