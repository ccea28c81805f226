//! The kernel side and the Rust side put every latency into the same bin.

use lathunt_core::histogram::Layout;
use lathunt_core::time::Ns;
use lathunt_host::recorder::kernel_bins;
use lathunt_host::testing::{lacks_bpf, may_run};

#[test]
#[ignore = "root: run by make test"]
fn kernel_and_user_space_agree_on_the_bin_of_every_latency() {
    if !may_run("kernel_and_user_space_agree_on_the_bin_of_every_latency", lacks_bpf()) {
        return;
    }
    let layout = Layout::LATENCY;
    let edges = (0..layout.bins()).flat_map(|bin| [layout.lower(bin), layout.upper(bin)]);
    let powers = (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1]).map(Ns);
    let values: Vec<Ns> = edges.chain(powers).collect();
    let bins = kernel_bins(&values).unwrap_or_else(|error| panic!("{error}"));
    for (value, bin) in values.iter().zip(bins) {
        assert_eq!(bin, layout.index(*value), "{value:?}");
    }
}
