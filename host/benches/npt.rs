//! What the statistics of `npt` add to its empty loop: rounds with and without them alternate, and the median of the
//! differences is taken. `cargo bench -p lathunt-host --bench npt [-- ROUNDS]`

use lathunt_host::instrument::npt::cost_of_statistics;

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

fn main() {
    let rounds: Vec<(f64, f64)> = (0..figure::rounds(25)).map(|_| cost_of_statistics(2_000_000)).collect();
    let (bare, counted): (Vec<f64>, Vec<f64>) = rounds.iter().copied().unzip();
    let added: Vec<f64> = rounds.iter().map(|(bare, counted)| counted - bare).collect();
    figure::plain("npt: a turn of the empty loop", figure::median(&bare), "ns");
    figure::plain("npt: the same with statistics", figure::median(&counted), "ns");
    figure::at_most("npt: what the statistics add", figure::median(&added), "ns", 6.0);
}
