/* SPDX-License-Identifier: GPL-2.0 */
/* Memories: what earlier transfers to a destination carried, set by user space, and the results of using them.
 *
 * A connection looks for its memory once, by network namespace, port of either end and longest prefix. Later it uses the
 * same place in the map. If the memory there was set again meanwhile, set_ns is different, and it is another memory.
 */
#ifndef HOWDAH_MEMORY_H
#define HOWDAH_MEMORY_H

#include "storage.h"

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, MEMORIES_MAX);
	__type(key, struct destination);
	__type(value, struct memory);
} memories SEC(".maps");

enum {
	PLACES = 6, /* of this namespace or of all; of the far port, the near one or of all */
	TRIES = 8,
};

/* The IPv4 part of an IPv4-mapped IPv6 address counts as IPv4. */
static __always_inline void address_of(const struct sock *sk, struct destination *key)
{
	const struct sock_common *common = &sk->__sk_common;
	const __be32 *v6 = common->skc_v6_daddr.in6_u.u6_addr32;

	key->family = 4;
	if (common->skc_family == AF_INET) {
		key->address[0] = common->skc_daddr;
	} else if (!v6[0] && !v6[1] && v6[2] == bpf_htonl(0xffff)) {
		key->address[0] = v6[3];
	} else {
		key->family = 6;
		for (int i = 0; i < 4; i++)
			key->address[i] = v6[i];
	}
	key->bits = 64 + 64 + 64 + (key->family == 4 ? 32 : 128);
}

static __always_inline struct memory *look_at(const struct sock *sk, __u32 place)
{
	struct destination key = {};
	__u32 port = place % 3;

	address_of(sk, &key);
	key.namespace = place < 3 ? sk->__sk_common.skc_net.net->net_cookie : 0;
	key.port = port == 0 ? bpf_ntohs(sk->__sk_common.skc_dport) : port == 1 ? sk->__sk_common.skc_num : 0;
	return bpf_map_lookup_elem(&memories, &key);
}

static __always_inline struct memory *find_memory(const struct sock *sk, __u32 *place)
{
	for (*place = 0; *place < PLACES; (*place)++) {
		struct memory *memory = look_at(sk, *place);

		if (memory)
			return memory;
	}
	return NULL;
}

/* The memory at that place, if it is still the one that was set at that time. */
static __always_inline struct memory *memory_at(const struct sock *sk, __u32 place, __u64 set_ns)
{
	struct memory *memory = set_ns ? look_at(sk, place) : NULL;

	return memory && memory->set_ns == set_ns ? memory : NULL;
}

/* Takes a part of the jump, if one is left. There are as many parts as streams that share the memory. `again_us` after the
 * first part was taken, all are free again.
 */
static __always_inline bool take_part(struct memory *memory, __u64 again_us)
{
	__u64 now_ms = bpf_ktime_get_boot_ns() / 1000000;

	for (int i = 0; i < TRIES; i++) {
		__u64 had = memory->parts, taken = (__u32)had, now = (now_ms << 32) | 1;

		if (had && (__u32)(now_ms - (had >> 32)) < again_us / 1000) {
			if (taken >= memory->streams)
				return false;
			now = had + 1;
		}
		if (__sync_val_compare_and_swap(&memory->parts, had, now) == had)
			return true;
	}
	return false;
}

#endif
