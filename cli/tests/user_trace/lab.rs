//! A place of its own for each test: shared memory, traces, and programs built against the installed tracer.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::OnceLock;

use tempfile::TempDir;

/// Where the tracer is installed for all tests of this run.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<TempDir> = OnceLock::new();
    PREFIX
        .get_or_init(|| {
            let prefix = tempfile::tempdir().unwrap();
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tracer/install.sh");
            let installed = Command::new(script).arg("--debug").arg(prefix.path()).output().unwrap();
            assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
            prefix
        })
        .path()
}

/// Flags as pkg-config gives them to a user.
pub fn flags() -> Vec<String> {
    let path = prefix().join("lib/pkgconfig");
    let asked = Command::new("pkg-config")
        .args(["--cflags", "--libs", "lathunt-tracer"])
        .env("PKG_CONFIG_PATH", path)
        .output();
    let asked = asked.expect("pkg-config is needed");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let mut flags: Vec<String> =
        String::from_utf8(asked.stdout).unwrap().split_whitespace().map(str::to_owned).collect();
    flags.push(format!("-Wl,-rpath,{}", prefix().join("lib").display()));
    flags.push("-lpthread".to_owned());
    flags
}

/// Compiles `source` with `compiler` and `extra` flags; warnings are errors.
pub fn build(compiler: &str, extra: &[&str], source: &Path, program: &Path) {
    let built = Command::new(compiler)
        .args(["-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
        .args(extra)
        .arg(source)
        .args(flags())
        .arg("-o")
        .arg(program)
        .output()
        .unwrap_or_else(|error| panic!("{compiler} is needed: {error}"));
    assert!(built.status.success(), "{compiler} {extra:?}: {}", String::from_utf8_lossy(&built.stderr));
}

/// One test's shared memory and traces.
pub struct Lab {
    dir: TempDir,
    memory: TempDir,
}

impl Lab {
    /// Empty.
    pub fn new() -> Lab {
        let memory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        Lab { dir: tempfile::tempdir().unwrap(), memory }
    }

    /// A path in the test's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where the programs' memory lies.
    pub fn memory(&self) -> &Path {
        self.memory.path()
    }

    /// Builds one of the test programs beside this file.
    pub fn program(&self, name: &str) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/user_trace").join(format!("{name}.c"));
        let program = self.path(name);
        build("cc", &["-std=gnu11"], &source, &program);
        program
    }

    /// A command in the test's environment.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LATHUNT_TRACE_DIR", self.memory.path());
        command
    }

    /// `lathunt trace …`, to its end.
    pub fn trace(&self, arguments: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_lathunt")).arg("trace").args(arguments).output().unwrap()
    }

    /// The same, which must succeed; its standard output.
    pub fn trace_ok(&self, arguments: &[&str]) -> String {
        let output = self.trace(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a program.
    pub fn spawn(&self, program: &Path, arguments: &[&str]) -> Child {
        self.command(program).args(arguments).spawn().unwrap()
    }

    /// Trace directories below the output directory, sorted.
    pub fn traces(&self, out: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.path(out)];
        while let Some(dir) = open.pop() {
            let Ok(entries) = std::fs::read_dir(&dir) else { continue };
            for entry in entries.flatten() {
                match entry.file_name().to_str() {
                    Some("metadata") => found.push(dir.clone()),
                    _ if entry.path().is_dir() => open.push(entry.path()),
                    _ => {}
                }
            }
        }
        found.sort();
        found
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = self.trace(&["stop"]);
    }
}

/// What babeltrace2 prints for a trace; it must not complain. `None` (named) where it is not installed.
pub fn babeltrace(path: &Path) -> Option<String> {
    let Ok(output) = Command::new("babeltrace2").arg(path).output() else {
        lathunt_host::testing::may_run("babeltrace2 reads the trace", Some("babeltrace2 is not installed"))
            .then_some(())?;
        return None;
    };
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && talk.is_empty(), "babeltrace2 {}: {talk}", path.display());
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
