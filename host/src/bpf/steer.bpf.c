// SPDX-License-Identifier: MIT OR Apache-2.0
// Passes the datagrams of one sender to one UDP port to AF_XDP sockets, before the kernel's network stack sees them.
// Everything else, also fragments and packets with options, goes its ordinary way.
#include "kernel.h"
#include <bpf/bpf_endian.h>

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_XSKMAP = 17 };
enum { XDP_PASS = 2 };

struct xdp_md {
	__u32 data, data_end;
	__u32 data_meta;
	__u32 ingress_ifindex, rx_queue_index, egress_ifindex;
};

struct ethernet {
	__u16 to[3], from[3];
	__be16 type;
};

struct ipv4 {
	__u8 version_and_length, service;
	__be16 length, number, fragment;
	__u8 hops, protocol;
	__be16 checksum;
	__be32 source, destination;
} __attribute__((packed, aligned(2)));

struct ipv6 {
	__be16 version_class_and_label[2], length;
	__u8 protocol, hops;
	__be32 source[4], destination[4];
} __attribute__((packed, aligned(2)));

struct udp {
	__be16 source, destination, length, checksum;
};

/* As in the packet; of an IPv4 address, only the first word is used. */
struct flow {
	__be16 type; /* EtherType; 0: none */
	__be16 source_port, destination_port, unused;
	__be32 source[4], destination[4];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct flow);
} wanted SEC(".maps");

/* By receive queue. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 64);
	__type(key, __u32);
	__type(value, __u32);
} sockets SEC(".maps");

static bool is_same(const __be32 *address, const __be32 *other)
{
	return address[0] == other[0] && address[1] == other[1] && address[2] == other[2] && address[3] == other[3];
}

SEC("xdp")
int steer(struct xdp_md *packet)
{
	void *begin = (void *)(long)packet->data, *end = (void *)(long)packet->data_end;
	__u32 first = 0;
	struct flow *flow = bpf_map_lookup_elem(&wanted, &first);
	struct ethernet *ethernet = begin;
	struct udp *udp;

	if (!flow || (void *)(ethernet + 1) > end || !flow->type || ethernet->type != flow->type)
		return XDP_PASS;
	if (flow->type == bpf_htons(0x0800)) {
		struct ipv4 *ip = (void *)(ethernet + 1);

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > end || ip->version_and_length != 0x45 || ip->protocol != 17 ||
		    ip->fragment & bpf_htons(0x3fff) || ip->source != flow->source[0] ||
		    ip->destination != flow->destination[0])
			return XDP_PASS;
	} else {
		struct ipv6 *ip = (void *)(ethernet + 1);

		udp = (void *)(ip + 1);
		if ((void *)(udp + 1) > end || ip->protocol != 17 || !is_same(ip->source, flow->source) ||
		    !is_same(ip->destination, flow->destination))
			return XDP_PASS;
	}
	if (udp->source != flow->source_port || udp->destination != flow->destination_port)
		return XDP_PASS;
	/* A queue without a socket: the ordinary way. */
	return bpf_redirect_map(&sockets, packet->rx_queue_index, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
