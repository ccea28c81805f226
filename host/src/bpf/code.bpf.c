// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads the kernel's machine code for user space as it is at run time: alternatives and static calls are
// patched.
#include "kernel.h"

#define CODE_BYTES 256

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u8[CODE_BYTES]);
} code SEC(".maps");

/* 0, or the error of bpf_probe_read_kernel(). */
SEC("raw_tp")
int read_code(__u64 *args)
{
	__u32 zero = 0;
	void *to = bpf_map_lookup_elem(&code, &zero);

	return to ? bpf_probe_read_kernel(to, CODE_BYTES, (const void *)args[0]) : -1;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
