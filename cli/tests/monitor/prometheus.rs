//! A real Prometheus scrapes a running monitor, with native histograms and without, and answers questions about it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lathunt_host::testing::{lacks_bpf, may_run};
use serde_json::Value;

use super::{
    disturb, disturbed_until, http, last_cpu, peers, wait_for, Monitor, Running, INJECTED, NO_PEERS,
};

pub fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(file)
}

pub struct Prometheus {
    _running: Running,
    port: u16,
}

impl Prometheus {
    /// Scrapes `targets` every second; everything it writes is below `place`.
    pub fn start(peers: &Path, place: &Path, targets: &[&str], native: bool) -> Prometheus {
        fs::create_dir_all(place).unwrap();
        let scrape = fs::read_to_string(packaging("prometheus/scrape.yml")).unwrap();
        let scrape = scrape.replace("127.0.0.1:9745", &targets.join("\", \""));
        assert!(scrape.contains("scrape_interval: 60s"), "the shipped file is what is tested");
        let short = "global:\n  evaluation_interval: 1s\n".to_owned();
        fs::write(place.join("prometheus.yml"), short + &scrape.replace("60s", "1s")).unwrap();
        fs::copy(packaging("prometheus/lathunt.rules.yml"), place.join("lathunt.rules.yml")).unwrap();
        // Free a moment ago: good enough for a test.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(peers.join("usr/bin/prometheus"));
        command
            .arg(format!("--config.file={}", place.join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", place.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--log.level=warn"]);
        let features = if native { "native-histograms,exemplar-storage" } else { "exemplar-storage" };
        command.arg(format!("--enable-feature={features}"));
        let log = fs::File::create(place.join("log")).unwrap();
        let running = Running(command.current_dir(place).stdout(Stdio::null()).stderr(log).spawn().unwrap());
        Prometheus { _running: running, port }
    }

    pub fn api(&self, path: &str) -> Option<Value> {
        let text = http::text(self.port, &format!("/api/v1/{path}"), "application/json")?;
        let answer: Value = serde_json::from_str(&text).ok()?;
        (answer["status"] == "success").then(|| answer["data"].clone())
    }

    /// The value of a query with one result.
    pub fn value(&self, query: &str) -> Option<f64> {
        let data = self.api(&format!("query?query={}", http::encoded(query)))?;
        data["result"][0]["value"][1].as_str()?.parse().ok()
    }
}

#[test]
#[ignore = "root: run by make test"]
fn prometheus_knows_the_injected_maximum_with_native_histograms_and_without() {
    let lacks = lacks_bpf().or_else(|| peers().is_none().then_some(NO_PEERS));
    if !may_run("prometheus_knows_the_injected_maximum", lacks) {
        return;
    }
    let peers = peers().unwrap();
    let place = tempfile::tempdir().unwrap();
    let monitor = Monitor::with(place.path(), "2s", &["--deadline", "5ms"]);
    let target = format!("127.0.0.1:{}", monitor.port);
    let with = Prometheus::start(&peers, &place.path().join("native"), &[&target], true);
    let without = Prometheus::start(&peers, &place.path().join("classic"), &[&target], false);
    disturb();
    let of = format!("cpu=\"{}\",kind=\"timer+wakeup\"", last_cpu());
    let due = INJECTED.as_secs_f64();
    for (prometheus, native) in [(&with, true), (&without, false)] {
        let largest = format!("lathunt_latency_max_alltime_seconds{{{of}}}");
        wait_for("the injected maximum", Duration::from_secs(60), || {
            prometheus.value(&largest) > Some(due * 0.8)
        });
        assert_eq!(prometheus.value("up{job=\"lathunt\"}"), Some(1.0));
        let of_task = "max(max_over_time(lathunt_task_latency_max_seconds{kind=\"timer+wakeup\"}[1m]))";
        // A window of two seconds may pass between two scrapes where the host stops them.
        assert!(
            disturbed_until(|| prometheus.value(of_task) > Some(due * 0.8)),
            "the victim has no series of its own: {:?}",
            prometheus.api("query?query=lathunt_task_latency_max_seconds")
        );
        let count = match native {
            true => format!("histogram_count(lathunt_wakeup_latency_seconds{{{of}}})"),
            false => format!("lathunt_wakeup_latency_seconds_bucket{{{of},le=\"+Inf\"}}"),
        };
        wait_for("thousands of wake-ups", Duration::from_secs(20), || {
            prometheus.value(&count) > Some(1_000.0)
        });
        let quantile = match native {
            true => format!("histogram_quantile(1, lathunt_wakeup_latency_seconds{{{of}}})"),
            false => format!("histogram_quantile(1, lathunt_wakeup_latency_seconds_bucket{{{of}}})"),
        };
        let quantile = prometheus.value(&quantile).unwrap();
        assert!(quantile > due * 0.8, "native {native}: the largest bucket ends at {quantile} s");
        let rules = prometheus.api("rules").unwrap();
        let rules =
            rules["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
        let health: Vec<_> = rules.map(|rule| (rule["name"].clone(), rule["health"].clone())).collect();
        assert!(health.len() >= 8 && health.iter().all(|(_, health)| health != "err"), "{health:?}");
        let alert = "ALERTS{alertname=\"LathuntNewWorstEver\",alertstate=\"firing\"}";
        wait_for("the alert", Duration::from_secs(20), || prometheus.value(alert) == Some(1.0));
    }
    // Native ones do not exist in the other one's world.
    assert!(without.value(&format!("histogram_count(lathunt_wakeup_latency_seconds{{{of}}})")).is_none());
    let range = "start=2020-01-01T00:00:00Z&end=2099-01-01T00:00:00Z";
    let query = http::encoded(&format!("lathunt_wakeup_latency_seconds_bucket{{{of}}}"));
    let named = || {
        let exemplars = without.api(&format!("query_exemplars?query={query}&{range}")).unwrap_or_default();
        exemplars.to_string().contains("lathunt-inject")
    };
    assert!(disturbed_until(named), "the culprit is in no exemplar");
}

#[test]
#[ignore = "root: run by make test"]
fn promtool_finds_nothing_to_complain_about() {
    let lacks = lacks_bpf().or_else(|| peers().is_none().then_some(NO_PEERS));
    if !may_run("promtool_finds_nothing_to_complain_about", lacks) {
        return;
    }
    let promtool = peers().unwrap().join("usr/bin/promtool");
    let place = tempfile::tempdir().unwrap();
    let monitor = Monitor::with(place.path(), "500ms", &["--deadline", "5ms", "--latency-deadline", "5ms"]);
    disturb();
    let page = place.path().join("page");
    fs::write(&page, http::get(monitor.port, "/metrics", "text/plain").unwrap()).unwrap();
    let check = Command::new(&promtool)
        .args(["check", "metrics"])
        .stdin(fs::File::open(&page).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&check.stdout).into_owned() + &String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success() && said.trim().is_empty(), "{said}");
    for arguments in [&["check", "rules"][..], &["test", "rules"]] {
        let file = if arguments[0] == "check" { "lathunt.rules.yml" } else { "lathunt.rules.test.yml" };
        let output =
            Command::new(&promtool).args(arguments).arg(packaging("prometheus").join(file)).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    shipped_files_use_only_what_is_exported(&fs::read_to_string(&page).unwrap());
}

/// Every metric that the dashboard and the rules ask for exists.
fn shipped_files_use_only_what_is_exported(page: &str) {
    let dashboard = fs::read_to_string(packaging("grafana/lathunt.json")).unwrap();
    serde_json::from_str::<Value>(&dashboard).unwrap();
    let rules = fs::read_to_string(packaging("prometheus/lathunt.rules.yml")).unwrap();
    let exported: Vec<&str> = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split(['{', ' ']).next())
        .collect();
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '-' || c == '.');
    let mut asked = 0;
    for name in dashboard.split(word).chain(rules.split(word)).filter(|name| name.starts_with("lathunt_")) {
        // Only present after losses, or if a task waits.
        if !["lathunt_lost_events_total", "lathunt_waiting_seconds"].contains(&name) {
            assert!(exported.contains(&name), "{name} is not exported");
            asked += 1;
        }
    }
    assert!(asked > 10, "{asked}");
}
