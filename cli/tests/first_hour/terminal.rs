//! Live views in a real terminal (tmux): keys, a small window, a window that changes its size.

use std::process::Command;
use std::time::{Duration, Instant};

use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};

/// A terminal of its own server, which ends with this.
struct Terminal {
    server: String,
}

impl Terminal {
    fn run(columns: u32, lines: u32, command: &str) -> Terminal {
        let terminal = Terminal { server: format!("lathunt-{}-{columns}", std::process::id()) };
        let (x, y) = (columns.to_string(), lines.to_string());
        terminal.tmux(&["new-session", "-d", "-x", &x, "-y", &y, command]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.server, "-f", "/dev/null"]).args(arguments);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    fn resize(&self, columns: u32, lines: u32) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    /// The screen when `is` holds of it.
    fn when(&self, what: &str, is: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if is(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn lacks_tmux() -> Option<&'static str> {
    Command::new("tmux").arg("-V").output().is_err().then_some("needs tmux")
}

#[test]
#[ignore = "root: run by make test"]
fn a_live_view_shows_its_keys_fits_a_small_window_and_leaves_no_old_rows() {
    let lacks = lacks_root().or_else(lacks_bpf).or_else(lacks_tmux);
    if !may_run("a_live_view_shows_its_keys", lacks) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let binary = env!("CARGO_BIN_EXE_lathunt");
    let command = format!("{binary} record --live --tasks all -q -o {}; cat", place.path().display());
    // `-q` hides the view; without it the summary follows at the end.
    let terminal = Terminal::run(50, 14, &command.replace(" -q", ""));
    let has_rows = |screen: &str| screen.contains("culprit") && screen.contains("CPU 0 ");
    let screen = terminal.when("rows", has_rows);
    assert!(
        screen.starts_with("recording (q ends, ? keys)") || screen.contains("\nrecording (q ends"),
        "{screen}"
    );
    let heading = screen.lines().find(|line| line.contains("culprit")).unwrap();
    assert!(heading.contains("samples") && heading.contains("max"), "{screen}");
    terminal.tmux(&["send-keys", "?"]);
    let screen = terminal.when("the keys", |screen| screen.contains("q  ends, with the summary"));
    assert!(screen.contains("recording") && screen.contains("culprit"), "the heading stays:\n{screen}");
    terminal.tmux(&["send-keys", "?"]);
    terminal.when("the keys to go", |screen| !screen.contains("q  ends, with the summary"));
    for (columns, lines) in [(110, 30), (50, 14), (70, 20), (52, 14)] {
        terminal.resize(columns, lines);
        std::thread::sleep(Duration::from_millis(1_300));
        let screen = terminal.when("one heading", |screen| screen.matches(" samples ").count() == 1);
        assert_eq!(screen.matches("recording ").count(), 1, "{columns} x {lines}:\n{screen}");
    }
    terminal.tmux(&["send-keys", "q"]);
    terminal.when("the end", |screen| screen.contains("run.lathunt.json") || screen.contains("report"));
}
