//! Ten hosts and one Prometheus: what two monitors served at several moments, served again by ten small servers.
//!
//! The pages are recorded, so that each answer of Prometheus can be held against them exactly. One host has a deadline
//! that its tasks miss; the latencies of the others are as large, but their deadlines are longer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use lathunt_host::testing::{lacks_bpf, may_run};
use serde_json::Value;

use super::prometheus::{packaging, Prometheus};
use super::{disturb, http, last_cpu, lathunt, peers, wait_for, Monitor, INJECTED, NO_PEERS};

const HOSTS: usize = 10;
const BAD: usize = 6;

/// Labels of a series, sorted; `instance` is among them.
type Labels = BTreeMap<String, String>;

/// A machine as Prometheus sees it. Its thread waits for connections until the test ends.
struct Host {
    instance: String,
    page: Arc<Mutex<Option<String>>>,
}

impl Host {
    fn serving(page: &str) -> Host {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let instance = listener.local_addr().unwrap().to_string();
        let page = Arc::new(Mutex::new(Some(page.to_owned())));
        let served = Arc::clone(&page);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
                let _ = stream.read(&mut [0; 4096]);
                // None: a machine that answers nothing.
                if let Some(page) = &*served.lock().unwrap() {
                    let head =
                        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain; version=0.0.4";
                    let _ = write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n{page}", page.len());
                }
            }
        });
        Host { instance, page }
    }
}

/// The series called `name` on a page, with their values.
fn series(page: &str, name: &str) -> Vec<(Labels, f64)> {
    let lines =
        page.lines().filter(|line| line.strip_prefix(name).is_some_and(|l| l.starts_with(['{', ' '])));
    let parsed = lines.map(|line| {
        let (key, value) = line.rsplit_once(' ').unwrap();
        let labels = key[name.len()..].trim_start_matches('{').trim_end_matches('}');
        let labels = labels.split("\",").filter(|label| !label.is_empty()).map(|label| {
            let (name, value) = label.split_once("=\"").unwrap();
            (name.to_owned(), value.trim_end_matches('"').to_owned())
        });
        (labels.collect(), value.parse().unwrap())
    });
    parsed.collect()
}

/// Whether a task's largest latency of the last window is one that we injected.
fn is_disturbed(page: &str) -> bool {
    series(page, "lathunt_task_latency_max_seconds")
        .iter()
        .any(|(_, value)| *value > INJECTED.as_secs_f64() * 0.8)
}

/// Pages of a monitor whose deadline is met and of one whose is not: from before the disturbance, and during it.
struct Recorded {
    before: (String, String),
    met: Vec<String>,
    missed: String,
}

fn record() -> Recorded {
    let place = tempfile::tempdir().unwrap();
    let start = |name: &str, deadline: &str| {
        let place = place.path().join(name);
        fs::create_dir(&place).unwrap();
        let arguments = ["--deadline", deadline, "--latency-deadline", deadline];
        Monitor::with(&place, "1s", &arguments)
    };
    let (met, missed) = (start("met", "30s"), start("missed", "5ms"));
    let page = |monitor: &Monitor| http::text(monitor.port, "/metrics", "text/plain").unwrap();
    // Real-time wake-ups before anything disturbs them, or the counters would be new when they are large.
    let calm = lathunt()
        .args(["cyclic", "-q", "-c", &last_cpu(), "-p", "80", "-i", "1000", "-D", "1s"])
        .output()
        .unwrap();
    assert!(calm.status.code() != Some(1), "{}", String::from_utf8_lossy(&calm.stderr));
    let counted = |page: &str| {
        let counts = series(page, "lathunt_wakeup_latency_seconds_count");
        counts.iter().any(|(labels, count)| labels["kind"] == "timer+wakeup" && *count > 0.0)
            && series(page, "lathunt_response_seconds_count").iter().any(|(_, count)| *count > 0.0)
    };
    let mut before = (String::new(), String::new());
    wait_for("a window with wake-ups and jobs", Duration::from_secs(30), || {
        before = (page(&met), page(&missed));
        counted(&before.0) && counted(&before.1)
    });
    let mut pages: Vec<String> = Vec::new();
    let mut worst = None;
    wait_for(
        "a window with a missed deadline, and three with the same latencies",
        Duration::from_secs(60),
        || {
            let disturbing = std::thread::spawn(disturb);
            while !disturbing.is_finished() {
                std::thread::sleep(Duration::from_millis(200));
                pages.push(page(&met));
                let page = page(&missed);
                let misses = series(&page, "lathunt_deadline_misses_total");
                if is_disturbed(&page) && misses.iter().any(|(_, misses)| *misses > 0.0) {
                    worst = Some(page);
                }
            }
            disturbing.join().unwrap();
            pages.retain(|page| is_disturbed(page));
            worst.is_some() && pages.len() >= 3
        },
    );
    Recorded { before, met: pages.into_iter().cycle().take(HOSTS - 1).collect(), missed: worst.unwrap() }
}

/// What Prometheus answers, as labels (with instance, without name and job) and values.
fn answer(prometheus: &Prometheus, query: &str) -> BTreeMap<Labels, f64> {
    let data = prometheus.api(&format!("query?query={}", http::encoded(query)));
    let data = data.unwrap_or_else(|| panic!("Prometheus cannot answer {query}"));
    let results = data["result"].as_array().unwrap().iter().map(|result| {
        let labels = result["metric"].as_object().unwrap().iter();
        let labels = labels.filter(|(name, _)| *name != "__name__" && *name != "job");
        let labels = labels.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
        (labels.collect(), result["value"][1].as_str().unwrap().parse().unwrap())
    });
    results.collect()
}

fn instances(answer: &BTreeMap<Labels, f64>) -> BTreeSet<String> {
    answer.keys().filter_map(|labels| labels.get("instance").cloned()).collect()
}

/// Queries of the shipped dashboard for all hosts, as Grafana fills them in.
fn queries() -> Vec<String> {
    fn within(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(object) => {
                found.extend(object.get("expr").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|value| within(value, found));
            }
            Value::Array(array) => array.iter().for_each(|value| within(value, found)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    within(
        &serde_json::from_str(&fs::read_to_string(packaging("grafana/lathunt.json")).unwrap()).unwrap(),
        &mut found,
    );
    let filled = |query: &String| query.replace("$__rate_interval", "1m").replace("$kind", "timer+wakeup");
    found.iter().map(filled).collect()
}

/// Alerts in a state, with the instance of each.
fn alerts(prometheus: &Prometheus, state: &str) -> BTreeSet<(String, String)> {
    let found = answer(prometheus, &format!("ALERTS{{alertstate=\"{state}\"}}"));
    found.into_keys().map(|labels| (labels["alertname"].clone(), labels["instance"].clone())).collect()
}

#[test]
#[ignore = "root: run by make test"]
fn one_prometheus_answers_for_ten_hosts_and_alerts_for_the_one_that_is_late() {
    let lacks = lacks_bpf().or_else(|| peers().is_none().then_some(NO_PEERS));
    if !may_run("one_prometheus_answers_for_ten_hosts", lacks) {
        return;
    }
    let recorded = record();
    let mut later = recorded.met.clone();
    later.insert(BAD, recorded.missed);
    let first = |host: usize| if host == BAD { &recorded.before.1 } else { &recorded.before.0 };
    let hosts: Vec<Host> = (0..HOSTS).map(|host| Host::serving(first(host))).collect();
    let names: BTreeSet<String> = hosts.iter().map(|host| host.instance.clone()).collect();

    let place = tempfile::tempdir().unwrap();
    let targets: Vec<&str> = hosts.iter().map(|host| host.instance.as_str()).collect();
    let prometheus = Prometheus::start(&peers().unwrap(), place.path(), &targets, false);
    wait_for("the first pages", Duration::from_secs(30), || {
        prometheus.value("count(lathunt_windows_total)") == Some(HOSTS as f64)
    });
    let of_bad = |alert: &str| (alert.to_owned(), hosts[BAD].instance.clone());
    let due = ["LathuntDeadlineMissed", "LathuntLatencyAboveDeadline", "LathuntNewWorstEver"].map(of_bad);
    let due = BTreeSet::from(due);
    assert!(
        alerts(&prometheus, "firing").is_subset(&due),
        "the machine that runs this may be late at any time"
    );
    for (host, page) in hosts.iter().zip(&later) {
        *host.page.lock().unwrap() = Some(page.clone());
    }
    wait_for("three alerts of the host that is late", Duration::from_secs(30), || {
        alerts(&prometheus, "firing").is_superset(&due)
    });
    // Two more evaluations, in which no other may appear.
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(alerts(&prometheus, "firing"), due);

    wait_for("the largest latency of each host", Duration::from_secs(20), || {
        is_largest_of_each_host(&prometheus, &hosts, &later)
    });
    the_dashboard_shows_each_host(&prometheus, &hosts, &later, &names);

    *hosts[2].page.lock().unwrap() = None;
    wait_for("the host that is down", Duration::from_secs(20), || !alerts(&prometheus, "pending").is_empty());
    let down = BTreeSet::from([("LathuntDown".to_owned(), hosts[2].instance.clone())]);
    assert_eq!(alerts(&prometheus, "pending"), down);
}

/// Whether the recording rule has the largest latency of each page: it is evaluated after the pages are scraped.
fn is_largest_of_each_host(prometheus: &Prometheus, hosts: &[Host], pages: &[String]) -> bool {
    let rule = answer(prometheus, "instance_kind:lathunt_latency_max_seconds:max{kind=\"timer+wakeup\"}");
    let count = rule.len();
    let agree = rule.into_iter().all(|(labels, value)| {
        let host = hosts.iter().position(|host| host.instance == labels["instance"]).unwrap();
        let of_page = series(&pages[host], "lathunt_latency_max_seconds");
        let of_page = of_page.iter().filter(|(labels, _)| labels["kind"] == "timer+wakeup");
        let largest = of_page.map(|(_, value)| *value).fold(0.0, f64::max);
        value == largest && largest > 0.0
    });
    count == HOSTS && agree
}

/// Each query, for all hosts and for one: those that a page answers by itself, to the last digit.
fn the_dashboard_shows_each_host(
    prometheus: &Prometheus,
    hosts: &[Host],
    pages: &[String],
    names: &BTreeSet<String>,
) {
    let mut exact = 0;
    let queries = queries();
    assert!(queries.len() >= 18, "{}", queries.len());
    for query in &queries {
        let all = answer(prometheus, &query.replace("$instance", ".*"));
        let one = answer(prometheus, &query.replace("$instance", &hosts[BAD].instance.replace('.', "\\\\.")));
        // Nothing was lost here, or nothing so far.
        if all.is_empty() && query.contains("lathunt_lost_events_total") {
            continue;
        }
        if query.starts_with("sum by (le)") {
            assert!(
                all.values().sum::<f64>() > one.values().sum::<f64>(),
                "{query}: {all:?}, of one host {one:?}"
            );
            continue;
        }
        assert_eq!(&instances(&all), names, "{query}");
        assert_eq!(instances(&one), BTreeSet::from([hosts[BAD].instance.clone()]), "{query}");
        if let Some((name, factor)) = gauge(query) {
            let mut due = BTreeMap::new();
            for (host, page) in hosts.iter().zip(pages) {
                for (mut labels, value) in series(page, name) {
                    if query.contains("kind=") && labels.get("kind").is_none_or(|kind| kind != "timer+wakeup")
                    {
                        continue;
                    }
                    labels.insert("instance".to_owned(), host.instance.clone());
                    due.insert(labels, value * factor);
                }
            }
            assert_eq!(all, due, "{query}");
            exact += 1;
        } else if query.contains("_missed_total") {
            assert!(all.values().all(|value| *value >= 0.0), "{query}: {all:?}");
        } else if query.contains("lathunt_deadline_misses_total") {
            let late = all.iter().filter(|(_, misses)| **misses > 0.0).map(|(labels, _)| &labels["instance"]);
            assert!(
                late.collect::<BTreeSet<_>>().iter().all(|name| **name == hosts[BAD].instance),
                "{query}: {all:?}"
            );
        } else {
            // Rates and quantiles: at least one series of each host moved.
            let moved = all.iter().filter(|(_, value)| **value > 0.0).map(|(labels, _)| &labels["instance"]);
            assert_eq!(moved.collect::<BTreeSet<_>>().len(), HOSTS, "{query}: {all:?}");
        }
    }
    assert!(exact >= 7, "{exact} queries were compared exactly");
}

/// The metric and factor of a query that selects one metric and multiplies it at most.
fn gauge(query: &str) -> Option<(&str, f64)> {
    let (selector, factor) = match query.split_once(" * ") {
        Some((selector, factor)) => (selector, factor.parse().ok()?),
        None => (query, 1.0),
    };
    let (name, labels) = selector.split_once('{')?;
    (!name.contains('(') && labels.ends_with('}') && !labels.contains('[')).then_some((name, factor))
}
