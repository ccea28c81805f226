// SPDX-License-Identifier: MIT OR Apache-2.0
// Answers which bin the kernel side would put a latency into, so that a test can hold it equal to the Rust side.
#include "kernel.h"
#include "hist.h"

SEC("raw_tp")
int bin_of(__u64 *args) { return hist_index(args[0]); }

char LICENSE[] SEC("license") = "Dual BSD/GPL";
