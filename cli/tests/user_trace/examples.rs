//! What the documentation shows: the examples, the compilers, the languages, and the promises about the hot path.

use std::path::{Path, PathBuf};
use std::process::Command;

use lathunt_host::testing;

use crate::lab::{babeltrace, build, flags, prefix, Lab};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// What both examples must leave in a trace.
fn check_motion(lab: &Lab, program: &Path) {
    let out = lab.path("out");
    lab.trace_ok(&["--user", "-o", out.to_str().unwrap(), "--", program.to_str().unwrap(), "100"]);
    let Some(text) = babeltrace(&out) else { return };
    let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!(count("motion:configured"), 1, "{text}");
    assert!(count("machine = \"two-axis gantry\", axes = 2") == 1, "{text}");
    assert_eq!(
        (count("motion:control_begin"), count("motion:control_end"), count("motion:setpoint")),
        (200, 200, 200)
    );
    assert_eq!((count("procname = \"axis-0\""), count("procname = \"axis-1\"")), (300, 300));
    assert_eq!(count("\"IDLE\" : container = 0"), 20, "{text}");
}

#[test]
fn the_c_example_builds_with_pkg_config_and_is_recorded() {
    let lab = Lab::new();
    let program = lab.path("motion");
    build("cc", &["-std=c11"], &root().join("examples/motion-c/motion.c"), &program);
    check_motion(&lab, &program);
}

#[test]
fn the_c_example_links_the_static_library() {
    let lab = Lab::new();
    let program = lab.path("motion");
    let built = Command::new("cc")
        .args(["-std=c11", "-O2", "-I"])
        .arg(prefix().join("include"))
        .arg(root().join("examples/motion-c/motion.c"))
        .arg(prefix().join("lib/liblathunt-tracer.a"))
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    check_motion(&lab, &program);
}

#[test]
fn the_c_example_builds_with_cmake() {
    let missing = Command::new("cmake").arg("--version").output().err().map(|_| "cmake is not installed");
    if !testing::may_run("the C example builds with CMake", missing) {
        return;
    }
    let lab = Lab::new();
    let build = lab.path("build");
    let example = root().join("examples/motion-c");
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    run(Command::new("cmake")
        .arg("-S")
        .arg(example)
        .arg("-B")
        .arg(&build)
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    check_motion(&lab, &build.join("motion"));
}

#[test]
fn the_rust_example_builds_and_is_recorded() {
    let lab = Lab::new();
    let target = root().join("target/examples-rust");
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--offline", "--manifest-path"])
        .arg(root().join("examples/motion-rust/Cargo.toml"))
        .env("CARGO_TARGET_DIR", &target)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    check_motion(&lab, &target.join("debug/motion"));
}

/// Every kind of field and every macro, in a file that both languages understand.
const EVERYTHING: &str = r#"
#include <stdbool.h>
#include <lathunt/trace.h>
LATHUNT_ENUM(mode, s16, (IDLE, 0), (RUN, 1), (BAD, -1));
LATHUNT_EVENT(t, all, (u8, a), (u16, b), (u32, c), (u64, d), (s8, e), (s16, f), (s32, g), (s64, h), (f32, i), (f64, j),
              (bool, k), (enum, l, mode), (str, m, 8), (chars, n, 4), (bytes, o, 3), (blob, p, 5));
LATHUNT_EVENT(t, text, (str, a, 32));
LATHUNT_EVENT(t, none);
LATHUNT_EVENT(t, unused, (u8, a));
LATHUNT_SPAN(t, interval, (u32, a));
LATHUNT_SPAN(t, bare);
int main(void)
{
    lathunt_thread_init("main");
    LATHUNT_EMIT_INIT(t, none);
    LATHUNT_EMIT_INIT(t, unused, 1);
    LATHUNT_EMIT(t, text, "shorter than its field");
    if (LATHUNT_WANTED(t, all))
        LATHUNT_EMIT(t, all, 1, 2, 3, 4, -1, -2, -3, -4, 1.5f, 2.5, true, -1, "long text", "abcdef", "xyz", "123456", 6);
    else
        LATHUNT_EMIT(t, none);
    LATHUNT_SCOPE(t, interval, 7);
    LATHUNT_SCOPE(t, bare);
    return 0;
}
"#;

#[test]
fn every_macro_compiles_without_a_warning_as_c_and_as_cpp_under_gcc_and_clang() {
    let lab = Lab::new();
    for (compiler, standard, extension) in [
        ("gcc", "-std=c11", "c"),
        ("clang", "-std=c11", "c"),
        ("g++", "-std=c++17", "cpp"),
        ("clang++", "-std=c++17", "cpp"),
    ] {
        let source = lab.path(&format!("everything.{extension}"));
        let program = lab.path(compiler);
        std::fs::write(&source, EVERYTHING).unwrap();
        for level in ["-O0", "-O2"] {
            let flags = [standard, level, "-Wconversion", "-Wsign-conversion", "-Wshadow"];
            build(compiler, &flags, &source, &program);
        }
        let out = lab.path(&format!("out-{compiler}"));
        lab.trace_ok(&["--user", "-o", out.to_str().unwrap(), "--", program.to_str().unwrap()]);
        let Some(text) = babeltrace(&out) else { return };
        let wanted = "a = 1, b = 2, c = 3, d = 4, e = -1, f = -2, g = -3, h = -4, i = 1.5, j = 2.5, k = 1, \
                      l = ( \"BAD\" : container = -1 ), m = \"long tex\", n = \"abcd\", \
                      o = [ [0] = 0x78, [1] = 0x79, [2] = 0x7A ], _p_length = 5, \
                      p = [ [0] = 0x31, [1] = 0x32, [2] = 0x33, [3] = 0x34, [4] = 0x35 ]";
        assert!(text.contains(wanted), "{compiler}: {text}");
        let order: Vec<_> =
            ["interval_begin", "bare_begin", "bare_end", "interval_end"].map(|name| text.find(name)).into();
        assert!(order.windows(2).all(|pair| pair[0].is_some() && pair[0] < pair[1]), "{compiler}: {text}");
    }
}

#[test]
fn ten_million_events_make_no_system_call_and_no_page_fault() {
    let lab = Lab::new();
    let program = lab.path("silent");
    build("cc", &["-std=gnu11"], &root().join("tracer/bench/silent.c"), &program);
    for mode in [&[][..], &["--flight"]] {
        let out = lab.path("out");
        let mut start = vec!["start", "-o", out.to_str().unwrap()];
        start.extend(mode);
        lab.trace_ok(&start);
        let ended = lab.command(&program).status().unwrap();
        assert_eq!(
            ended.code(),
            Some(7),
            "8: page faults, 9: not enabled, killed: a system call; {mode:?} {ended}"
        );
        lab.trace(&["stop"]);
    }
}

/// Four threads write, a fifth reads what they have committed, all in one process and instrumented.
const RACING: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <lathunt/trace.h>
LATHUNT_EVENT(t, words, (u64, a), (u64, b));
static struct lathunt_ring *rings[4];
static pthread_barrier_t all_done;
static void *write_events(void *index)
{
    uint64_t i;
    lathunt_thread_init("writer");
    __atomic_store_n(&rings[(size_t)index], lathunt_slot, __ATOMIC_RELEASE);
    for (i = 0; i < 20000; i++)
        LATHUNT_EMIT(t, words, i, ~i);
    pthread_barrier_wait(&all_done); /* a ring that is given back goes to the next thread */
    return NULL;
}
static void *read_events(void *unused)
{
    uint64_t number[4] = {0, 0, 0, 0}, packet[4] = {1, 1, 1, 1}, at[4] = {12, 12, 12, 12}, seen = 0;
    while (seen < 4 * 20000) {
        int i;
        for (i = 0; i < 4; i++) {
            struct lathunt_ring *ring = __atomic_load_n(&rings[i], __ATOMIC_ACQUIRE);
            uint64_t committed = ring ? __atomic_load_n(&ring->committed, __ATOMIC_ACQUIRE) : 0;
            while (committed && packet[i] <= committed >> 32) { /* the ring never wraps here */
                const uint64_t *words = (const uint64_t *)(const void *)((const char *)ring + 4096);
                uint64_t end;
                words += (packet[i] & ring->packet_mask) * 512;
                end = committed & 0xffff;
                if (packet[i] < committed >> 32 || end == 0xffff)
                    end = words[6] & 0xffffffff;
                for (; at[i] < end; at[i] += 3, number[i]++, seen++)
                    if (words[at[i] + 1] != number[i] || words[at[i] + 2] != ~number[i])
                        exit(5);
                if (packet[i] == committed >> 32)
                    break;
                packet[i]++;
                at[i] = 12;
            }
        }
    }
    return unused;
}
int main(void)
{
    pthread_t threads[5];
    size_t i;
    for (i = 0; !LATHUNT_WANTED(t, words) && i < 3000; i++)
        usleep(1000);
    pthread_barrier_init(&all_done, NULL, 4);
    for (i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, write_events, (void *)i);
    pthread_create(&threads[4], NULL, read_events, NULL);
    for (i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
"#;

#[test]
fn thread_sanitizer_finds_no_race_between_writers_and_a_reader() {
    let lab = Lab::new();
    let source = lab.path("racing.c");
    std::fs::write(&source, RACING).unwrap();
    for compiler in ["gcc", "clang"] {
        let program = lab.path(compiler);
        let built = Command::new(compiler)
            .args(["-std=gnu11", "-O1", "-g", "-fsanitize=thread"])
            .arg(&source)
            .args(flags())
            .arg("-o")
            .arg(&program)
            .output()
            .unwrap();
        if !testing::may_run(
            &format!("ThreadSanitizer with {compiler}"),
            (!built.status.success()).then_some("its runtime is not installed"),
        ) {
            continue;
        }
        let out = lab.path("out");
        // ThreadSanitizer's memory layout needs a small randomisation of addresses.
        let command = ["setarch", "-R", program.to_str().unwrap()];
        let mut all = vec!["--user", "-o", out.to_str().unwrap(), "--"];
        all.extend(command);
        let output = lab.trace(&all);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(!talk.contains("ThreadSanitizer"), "{compiler}: {talk}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("80000 events recorded"), "{compiler}: {text} {talk}");
    }
}
