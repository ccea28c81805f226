//! What is drawn holds every sample, whatever the range.

mod example;

use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::report::plot::{Plot, Wanted, LEFT, RIGHT};
use lathunt_core::report::scale::Kind;
use lathunt_core::report::{latency, seconds, svg};
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, SecondMax, Series};
use lathunt_core::time::{Cpu, Ns};
use proptest::prelude::*;

fn run_of(values: &[u64], layout: Layout) -> Run {
    let mut histogram = Histogram::new(layout);
    values.iter().for_each(|&v| histogram.record(Ns(v)));
    let mut series = Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram);
    series.seconds =
        values.iter().enumerate().map(|(i, &v)| SecondMax { second: i as u32 * 97, max_ns: Ns(v) }).collect();
    let mut run = Run::new(Default::default());
    run.series.push(series);
    run
}

fn plots(run: &Run, deadline: Option<Ns>, wanted: Wanted) -> [Plot; 2] {
    let curves = latency::curves(&[("", run)], Quantity::Cyclic);
    [
        latency::plot(Quantity::Cyclic, &curves, deadline, wanted).unwrap(),
        seconds::plot(Quantity::Cyclic, &curves, deadline, wanted).unwrap(),
    ]
}

fn worst_is_inside(plot: &Plot, worst: u64) {
    let unit = if [plot.x.unit, plot.y.unit].contains(&"ns") { 1.0 } else { 1e3 };
    let axis = if plot.columns { &plot.x } else { &plot.y };
    assert!(axis.scale.hi >= worst as f64 / unit, "{worst} ns beyond {:?}", axis.scale);
    for step in plot.lines.iter().flat_map(|line| &line.steps) {
        assert!(plot.x.scale.hi >= step.to * 0.999_999 && plot.y.scale.hi >= step.value, "{step:?}");
        assert!((LEFT..=RIGHT).contains(&plot.x.scale.at(step.from)));
    }
}

proptest! {
    #[test]
    fn no_value_lies_outside_the_axes(
        values in proptest::collection::vec(prop_oneof![0u64..100_000, 0u64..50_000_000, any::<u64>()], 1..40),
        deadline in proptest::option::of(any::<u64>().prop_map(Ns)),
        fine in any::<bool>(),
        wanted in prop_oneof![Just(Wanted::Auto), Just(Wanted::Linear), Just(Wanted::Log)],
    ) {
        let layout = if fine { Layout::new(10, 1_000).unwrap() } else { Layout::LATENCY };
        let run = run_of(&values, layout);
        for plot in plots(&run, deadline, wanted) {
            worst_is_inside(&plot, *values.iter().max().unwrap());
            let drawing = svg::standalone(&plot);
            prop_assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{drawing}");
            prop_assert!(serde_json::from_str::<serde_json::Value>(&plot.to_json()).is_ok());
        }
    }
}

#[test]
fn a_far_maximum_makes_the_axis_logarithmic_and_the_plot_says_so() {
    let mut values = vec![4_200; 5_000];
    values.push(53_392_000);
    let [latency, seconds] = plots(&run_of(&values, Layout::LATENCY), None, Wanted::Auto);
    assert_eq!((latency.x.scale.kind, seconds.y.scale.kind), (Kind::Log, Kind::Log));
    assert!(latency.notes.iter().any(|note| note.contains("logarithmic") && note.contains("53.392 ms")));
    assert!(latency.lines[0].legend.contains("max 53.392 ms"), "{}", latency.lines[0].legend);
    let [linear, _] = plots(&run_of(&values, Layout::LATENCY), None, Wanted::Linear);
    assert_eq!(linear.x.scale.kind, Kind::Linear);
    worst_is_inside(&linear, 53_392_000);
}

#[test]
fn a_heavy_tail_does_not_squeeze_the_body_of_the_distribution() {
    let mut values = vec![16_000; 5_000];
    values.extend(vec![1_200_000; 20]);
    values.push(3_851_000);
    let [latency, _] = plots(&run_of(&values, Layout::LATENCY), None, Wanted::Auto);
    assert_eq!(latency.x.scale.kind, Kind::Log, "p99.9 is a third of the maximum, p99 is one of 240");
}

#[test]
fn no_tail_is_heavy_enough_to_squeeze_the_body_of_any_line() {
    let mut values = vec![50_000; 5_000];
    values.extend((0..300u64).map(|nth| 5_000_000 + nth * 10_000));
    let mut run = run_of(&values, Layout::LATENCY);
    let [latency, _] = plots(&run, None, Wanted::Auto);
    assert_eq!(latency.x.scale.kind, Kind::Log, "p99 is seven eighths of the maximum");
    run.series.extend(run_of(&vec![2_000_000; 5_000], Layout::LATENCY).series);
    let [latency, _] = plots(&run, None, Wanted::Auto);
    assert_eq!(latency.x.scale.kind, Kind::Log, "the other line's body is at the left edge");
}

#[test]
fn long_runs_keep_the_largest_of_each_column() {
    let mut run = run_of(&[5_000], Layout::LATENCY);
    run.series[0].seconds = (0..90_000)
        .map(|second| SecondMax { second, max_ns: Ns(if second == 77_777 { 99_000 } else { 5_000 }) })
        .collect();
    let [_, plot] = plots(&run, None, Wanted::Auto);
    let steps = &plot.lines[0].steps;
    assert!(steps.len() <= 2_048, "{}", steps.len());
    assert_eq!(steps.iter().filter(|step| step.value == 99.0).count(), 1);
    assert!(plot.notes.iter().any(|note| note.contains("44 seconds")), "{:?}", plot.notes);
}

#[test]
fn a_far_deadline_does_not_squeeze_the_plot_but_is_pointed_at() {
    let run = example::run(2, 500);
    let [latency, seconds] = plots(&run, Some(Ns::from_ms(10)), Wanted::Auto);
    assert!(latency.x.scale.hi < 200.0 && seconds.y.scale.hi < 200.0);
    assert!(svg::standalone(&latency).contains("deadline 10.000 ms →"));
    assert!(svg::standalone(&seconds).contains("↑ deadline 10.000 ms"));
    let [near, _] = plots(&run, Some(Ns::from_us(120)), Wanted::Auto);
    assert!(near.x.scale.hi >= 120.0);
    assert!(svg::standalone(&near).contains("class=\"deadline\""));
}
