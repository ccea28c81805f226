// SPDX-License-Identifier: MIT OR Apache-2.0
// Returns the kernel side's bin for a latency, so that a test can compare it with the Rust side.
#include "kernel.h"
#include "hist.h"

SEC("raw_tp")
int bin_of(__u64 *args) { return hist_index(args[0]); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
