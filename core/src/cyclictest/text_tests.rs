//! Recorded output of rt-tests is taken apart into figures, printed again, and must be the same bytes.

use super::*;

fn recorded(name: &str) -> String {
    let path = format!("{}/tests/golden/cyclictest/{name}", env!("CARGO_MANIFEST_DIR"));
    #[allow(clippy::disallowed_methods)] // a test may read its golden files
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

fn figures(line: &str) -> Figures {
    let n = numbers(line);
    let latencies = (n[4] > 0).then(|| Latencies { min: n[5], act: n[6], avg: n[7], max: n[8] });
    Figures {
        tid: n[1] as i32,
        priority: n[2] as i32,
        interval_us: n[3],
        cycles: n[4],
        latencies,
        smis: None,
    }
}

#[test]
fn every_recorded_status_line_is_reprinted_byte_for_byte() {
    let mut seen = 0;
    for (name, nsecs) in [
        ("ct_plain.stdout", false),
        ("ct_D2.stdout", false),
        ("ct_b.stdout", false),
        ("ct_q_smp.stdout", false),
        ("ct_N.stdout", true),
    ] {
        let text = recorded(name);
        for line in text.lines().filter(|line| line.starts_with("T:")) {
            let index = numbers(line)[0] as usize;
            assert_eq!(status_line(index, &figures(line), nsecs), format!("{line}\n"), "{name}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn a_recorded_screen_is_reprinted_byte_for_byte() {
    let text = recorded("ct_plain.stdout");
    let mut rebuilt = latency_target(0);
    let mut lines = text.lines().skip(1);
    let mut again = false;
    while let Some(head) = lines.next() {
        let head = head.strip_prefix("\x1b[3A").unwrap_or(head);
        let (policy, load) = head.strip_prefix("policy: ").unwrap().split_once(": loadavg: ").unwrap();
        lines.next();
        let thread = figures(lines.next().unwrap());
        rebuilt += &screen(again, policy, load.trim_end(), &[thread], false);
        again = true;
    }
    assert_eq!(rebuilt, text);
}

/// Columns of a recorded histogram block.
fn columns(text: &str, with_sum: bool) -> Vec<Column> {
    let values = |label: &str| -> Vec<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {label}:")));
        numbers(line.unwrap_or_else(|| panic!("no {label}")))
    };
    let rows: Vec<Vec<u64>> =
        text.lines().filter(|line| line.starts_with('0')).map(|line| numbers(line)[1..].to_vec()).collect();
    let (min, avg, max) = (values("Min Latencies"), values("Avg Latencies"), values("Max Latencies"));
    let threads = rows[0].len() - usize::from(with_sum);
    (0..threads)
        .map(|at| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("# Thread {at}:"))).unwrap();
            let cycles = line.split('#').next().unwrap_or_default();
            Column {
                rows: rows.iter().map(|row| row[at]).collect(),
                overflows: values("Histogram Overflows")[at],
                overflow_cycles: numbers(cycles),
                latencies: Some(Latencies { min: min[at], avg: avg[at], max: max[at], act: 0 }),
                smis: None,
            }
        })
        .collect()
}

#[test]
fn every_recorded_histogram_is_reprinted_byte_for_byte() {
    for (name, with_sum) in [
        ("ct_h400_q.stdout", false),
        ("ct_H400_q.stdout", true),
        ("ct_h400.stdout", false),
        ("ct_overflow.stdout", false),
        ("ct_hist_b.stdout", false),
        ("ct_hist_v.stdout", false),
        ("ct_json.stdout", false),
        ("ct_histfile.hist", false),
    ] {
        let text = recorded(name);
        let block = &text[text.find("# Histogram\n").unwrap()..];
        let block = block.find("# Thread Ids").map_or(block, |end| &block[..end]);
        assert_eq!(histogram(&columns(block, with_sum), with_sum), block, "{name}");
    }
}

#[test]
fn the_end_of_a_broken_off_run_is_reprinted_byte_for_byte() {
    let text = recorded("ct_b.stdout");
    assert!(text.ends_with(&breaktrace(&[8228, 8229], Some((8229, 30)))));
    let text = recorded("ct_b_noq.stdout");
    assert!(text.ends_with(&breaktrace(&[8239, 8240], Some((8239, 28)))));
    assert_eq!(breaktrace(&[99_999, 123_456], None), "# Thread Ids: 99999 123456\n");
}

#[test]
fn recorded_spikes_and_samples_are_reprinted_byte_for_byte() {
    let text = recorded("ct_spike.stdout");
    let kept: Vec<Spike> = text
        .lines()
        .filter(|line| line.contains("Spike:"))
        .map(|line| {
            let n = numbers(line);
            Spike { thread: n[0] as usize, latency: n[1], at_us: n[2] }
        })
        .collect();
    assert!(text.ends_with(&spikes(&kept, 156)));
    assert_eq!(spikes(&[], 0), "");
    let text = recorded("ct_v.stdout");
    for line in text.lines().filter(|line| line.starts_with("  ")) {
        let n = numbers(line);
        assert_eq!(sample_line(n[0] as usize, n[1], n[2]), format!("{line}\n"));
    }
}

#[test]
fn the_status_report_is_framed_and_counts_interrupts_of_firmware() {
    let thread = Figures { smis: Some(3), ..Figures::default() };
    let text = status_report(&[thread], false);
    assert_eq!(
        text,
        "#---------------------------\n# cyclictest current status:\n\
         T: 0 (    0) P: 0 I:0 C:      0 Min:1000000 Act:    0 Avg:    0 Max:       0 SMI:       3\n\
         #---------------------------\n"
    );
}
