//! `lathunt bound` on files of 10^5 values: none may take minutes.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The answer, which takes a few seconds; it is killed after two minutes.
fn answer_in_time(directory: &Path, arguments: &[&str]) -> Value {
    let command = ["120", env!("CARGO_BIN_EXE_lathunt"), "bound", "--json"];
    let output =
        Command::new("timeout").args(command).args(arguments).current_dir(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn many_values_are_analysed_in_time_whatever_their_shape() {
    let place = tempfile::tempdir().unwrap();
    let gate = |answer: &Value, name: &str| {
        let all = answer["gates"].as_array().unwrap();
        all.iter().find(|gate| gate["name"] == name).map(|gate| gate["detail"].as_str().unwrap().to_owned())
    };
    const N: u64 = 87_000;
    for xi in [1.2, 3.0, -0.3, -0.9, -1.2] {
        // The quantiles of the distribution, in an order without a trend: 48,611 has no factor in common with N.
        let share = |at: u64| ((at * 48_611 % N) as f64 + 0.5) / N as f64;
        let maxima = (0..N).map(|at| 100.0 + 10.0 * ((-share(at).ln()).powf(-xi) - 1.0) / xi);
        fs::write(place.path().join("maxima"), maxima.map(|z| format!("{z:.9e}\n")).collect::<String>())
            .unwrap();
        let answer = answer_in_time(place.path(), &["--block-maxima", "--values", "maxima"]);
        if xi < -1.0 {
            let said = gate(&answer, "fit").unwrap();
            assert!(said.contains("no maximum at a shape above -1"), "{said}");
            continue;
        }
        for (name, want) in [("mu", 100.0), ("sigma", 10.0), ("xi", xi)] {
            let got = answer["gev"][name].as_f64().unwrap();
            assert!((got - want).abs() < 2e-3 * f64::abs(want), "{xi}: {name} {got}");
        }
        assert_eq!(answer["gev"]["xi_interval"][0].is_f64(), xi > -0.5, "{xi}: {}", answer["gev"]);
    }
    let values = (0..300_000u64).map(|at| format!("{}\n", 50 + (at * 7_919 % 300_007) % 1_000));
    fs::write(place.path().join("values"), values.collect::<String>()).unwrap();
    let answer = answer_in_time(place.path(), &["--threshold", "60", "--values", "values"]);
    assert!(gate(&answer, "size").unwrap().contains("choose a higher threshold"));
    assert!(answer["gpd"].is_null() && answer["extrapolated"]["value_ns"].is_null());
}
