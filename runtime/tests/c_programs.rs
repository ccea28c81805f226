//! The headers and the libraries as a C or C++ program uses them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// An installation of the library as it is, for all tests of this program.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = root().join("target/tmp/runtime-installed");
        let installed =
            Command::new(root().join("runtime/install.sh")).arg("--debug").arg(&prefix).output().unwrap();
        assert!(installed.status.success(), "{installed:?}");
        prefix
    })
}

struct Program(PathBuf);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Compiles without a warning; `source` is a file, or text.
fn build(name: &str, compiler: &str, flags: &[&str], source: &Source) -> Program {
    let program = std::env::temp_dir().join(format!("lathunt-runtime-{}-{name}", std::process::id()));
    let text = program.with_extension(if compiler.contains("++") { "cpp" } else { "c" });
    let file = match source {
        Source::File(path) => root().join(path),
        Source::Text(code) => {
            std::fs::write(&text, code).unwrap();
            text.clone()
        }
    };
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-I"])
        .arg(prefix().join("include"))
        .args(flags)
        .arg(file)
        .arg(prefix().join("lib/liblathunt-runtime.a"))
        .args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    let _ = std::fs::remove_file(&text);
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    Program(program)
}

enum Source {
    File(&'static str),
    Text(&'static str),
}

fn run(program: &Program, arguments: &[&str]) -> Output {
    Command::new("timeout").arg("60").arg(&program.0).args(arguments).output().unwrap()
}

fn succeed(program: &Program, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {text}", output.status);
    text
}

#[test]
fn an_unchanged_posix_program_runs_in_one_kernel_thread() {
    let source = Source::File("examples/runtime/producer_consumer.c");
    let program = build("producer", "gcc", &["-std=gnu11", "-include", "lathunt/pthread.h"], &source);
    assert_eq!(succeed(&program, &[]), "1000 items, sum 500500\n");
}

#[test]
fn the_examples_do_what_they_say() {
    let echo = build("echo", "gcc", &["-std=gnu11"], &Source::File("examples/runtime/echo_and_control.c"));
    let text = succeed(&echo, &["500"]);
    assert!(text.starts_with("500 datagrams, 0 lost"), "{text}");
    let schedulers =
        build("schedulers", "gcc", &["-std=gnu11"], &Source::File("examples/runtime/schedulers.c"));
    let text = succeed(&schedulers, &["120"]);
    assert!(text.contains("preemption by: ") && text.contains("EDF  task 1"), "{text}");
}

/// All that the header has, in a program that both languages understand.
const EVERYTHING: &str = include_str!("c/everything.c");

#[test]
fn the_header_compiles_without_a_warning_and_works_as_c_and_as_cpp() {
    for (compiler, standard) in
        [("gcc", "-std=gnu11"), ("clang", "-std=gnu11"), ("g++", "-std=gnu++17"), ("clang++", "-std=gnu++17")]
    {
        if Command::new(compiler).arg("--version").output().is_err() {
            println!("SKIPPED the runtime's header under {compiler}: not installed");
            assert!(std::env::var_os("LATHUNT_REQUIRE").is_none());
            continue;
        }
        let program = build(compiler, compiler, &[standard, "-Wshadow"], &Source::Text(EVERYTHING));
        assert_eq!(succeed(&program, &[]), "all\n", "{compiler}");
    }
}

const PROFILE: &str = include_str!("c/profile.c");

#[test]
fn the_profile_of_posix_threads_holds() {
    let program = build("profile", "gcc", &["-std=gnu11"], &Source::Text(PROFILE));
    assert_eq!(succeed(&program, &[]), "all\n");
}

/// One bad use for each argument.
const BAD: &str = include_str!("c/bad.c");

#[test]
fn bad_use_has_a_defined_end() {
    let program = build("bad", "gcc", &["-std=gnu11", "-Wno-infinite-recursion"], &Source::Text(BAD));
    let overflow = run(&program, &["overflow"]);
    let text = String::from_utf8_lossy(&overflow.stderr).into_owned();
    assert!(!overflow.status.success());
    assert!(text.contains("stack overflow in thread 'pthread'") && text.contains("larger stack"), "{text}");
    assert_eq!(succeed(&program, &["fork"]), "child 7\n");
    assert_eq!(succeed(&program, &["exec"]), "executed\n");
    assert_eq!(succeed(&program, &["handler"]), "handled 1, preempted\n");
    let stuck = run(&program, &["stuck"]);
    let text = String::from_utf8_lossy(&stuck.stderr).into_owned();
    assert!(text.contains("all threads wait"), "{text}");
    assert_eq!(succeed(&program, &["last"]), "", "ends with the last thread");
}

#[test]
fn pkg_config_and_the_shared_library_work() {
    let config = prefix().join("lib/pkgconfig");
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "lathunt-runtime"])
        .env("PKG_CONFIG_PATH", config)
        .output()
        .unwrap();
    assert!(flags.status.success(), "{flags:?}");
    let flags = String::from_utf8(flags.stdout).unwrap();
    let program =
        Program(std::env::temp_dir().join(format!("lathunt-runtime-{}-shared", std::process::id())));
    let built = Command::new("cc")
        .args(["-O2", "-include", "lathunt/pthread.h"])
        .arg(root().join("examples/runtime/producer_consumer.c"))
        .args(flags.split_whitespace())
        .arg(format!("-Wl,-rpath,{}", prefix().join("lib").display()))
        .arg("-o")
        .arg(&program.0)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    assert_eq!(succeed(&program, &[]), "1000 items, sum 500500\n");
}
