//! A real munin-node runs the plug-in.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lathunt_host::testing::{lacks_bpf, may_run};

use super::{disturb, disturbed_until, last_cpu, peers, wait_for, Monitor, Running, INJECTED, NO_PEERS};

#[test]
#[ignore = "root: run by make test"]
fn munin_node_fetches_the_injected_maximum() {
    let lacks = lacks_bpf().or_else(|| peers().is_none().then_some(NO_PEERS));
    if !may_run("munin_node_fetches_the_injected_maximum", lacks) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let monitor = Monitor::start(place.path(), "2s");
    let (_node, port) = node(&peers().unwrap(), place.path(), &monitor.database);
    wait_for("munin-node", Duration::from_secs(30), || TcpStream::connect(("127.0.0.1", port)).is_ok());
    disturb();
    let cpu = last_cpu();
    let value = |answer: &[String]| -> Option<f64> {
        let graph = answer.iter().skip_while(|line| *line != "multigraph lathunt_timer_wakeup");
        let field = format!("cpu{cpu}.value ");
        graph
            .take_while(|line| *line != "multigraph lathunt_wakeup")
            .find_map(|line| line.strip_prefix(&field)?.parse().ok())
    };
    wait_for("the injected maximum", Duration::from_secs(20), || {
        value(&ask(port, &["cap multigraph", "fetch lathunt"])) > Some(INJECTED.as_secs_f64() * 0.8)
    });
    let config = ask(port, &["cap multigraph dirtyconfig", "config lathunt"]);
    assert!(config.contains(&format!("cpu{cpu}.label CPU {cpu}")), "{config:?}");
    assert!(value(&config) > Some(INJECTED.as_secs_f64() * 0.8), "dirtyconfig brings the values: {config:?}");
    let named = || {
        let config = ask(port, &["cap multigraph dirtyconfig", "config lathunt"]);
        config.iter().any(|line| line.contains(".extinfo ") && line.contains("lathunt-inject"))
    };
    assert!(disturbed_until(named), "the culprit is told nowhere: {config:?}");
    let clean = ask(port, &["cap multigraph", "config lathunt"]);
    assert!(value(&clean).is_none() && clean.len() > 10, "{clean:?}");
}

/// munin-node out of the unpacked packages, everything that it reads and writes below `place`.
fn node(peers: &Path, place: &Path, database: &Path) -> (Running, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = place.display();
    let modules = peers.join("usr/share/perl5");
    // The places are compiled into one module; ours comes first.
    let defaults = fs::read_to_string(modules.join("Munin/Common/Defaults.pm")).unwrap();
    let defaults = defaults.replace("/etc/munin", &format!("{at}/etc"));
    let defaults = defaults.replace("/var/lib/munin-node/plugin-state", &format!("{at}/state"));
    for directory in ["etc/plugins", "etc/plugin-conf.d", "state", "perl/Munin/Common"] {
        fs::create_dir_all(place.join(directory)).unwrap();
    }
    fs::write(place.join("perl/Munin/Common/Defaults.pm"), defaults).unwrap();
    fs::write(
        place.join("munin-node.conf"),
        format!("log_level 2\nlog_file {at}/log\npid_file {at}/pid\nbackground 0\nsetsid 0\nuser root\ngroup root\nhost 127.0.0.1\nport {port}\nallow ^127\\.0\\.0\\.1$\n"),
    )
    .unwrap();
    // The plug-in runs as `nobody`, without access to the build directory.
    let binary = place.join("lathunt");
    fs::copy(env!("CARGO_BIN_EXE_lathunt"), &binary).unwrap();
    let settings =
        format!("[lathunt]\nenv.LATHUNT_DATABASE {}\nenv.LATHUNT {}\n", database.display(), binary.display());
    fs::write(place.join("etc/plugin-conf.d/lathunt"), settings).unwrap();
    let plugin = place.join("etc/plugins/lathunt");
    fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/munin/lathunt"), &plugin).unwrap();
    fs::set_permissions(&plugin, PermissionsExt::from_mode(0o755)).unwrap();

    let mut command = Command::new("perl");
    command.arg("-T").arg(format!("-I{at}/perl")).arg(format!("-I{}", modules.display()));
    // Compiled modules lie under the name of the architecture and Perl's version.
    for architecture in fs::read_dir(peers.join("usr/lib")).unwrap().flatten() {
        for version in fs::read_dir(architecture.path().join("perl5")).into_iter().flatten().flatten() {
            command.arg(format!("-I{}", version.path().display()));
        }
    }
    command.arg(peers.join("usr/sbin/munin-node")).arg("--config").arg(place.join("munin-node.conf"));
    let running =
        Running(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    (running, port)
}

/// Sends each line; gives the lines of the last answer, which ends with a point.
fn ask(port: u16, questions: &[&str]) -> Vec<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    lines.next(); // greeting
    let mut answer = Vec::new();
    for question in questions {
        writeln!(stream, "{question}").unwrap();
        let many = !question.starts_with("cap");
        answer =
            lines.by_ref().take(if many { usize::MAX } else { 1 }).take_while(|line| line != ".").collect();
    }
    answer
}
