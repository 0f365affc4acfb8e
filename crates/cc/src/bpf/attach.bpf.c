// SPDX-License-Identifier: GPL-2.0
/* Gives new connections a congestion control, by their cgroup, their far end and their ports.
 * The rules of the deepest cgroup come first, those without a cgroup last. User space makes sure that prefixes of
 * different rules never overlap in one cgroup and network namespace, so the longest match is the only one.
 */
#include "cgroups.h"
#include "storage.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, RULES_MAX);
	__type(key, struct prefix);
	__type(value, struct ranges);
} prefixes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RULES_MAX);
	__type(key, __u32);
	__type(value, struct rule);
} rules SEC(".maps");

/* The IPv4 part of an IPv4-mapped IPv6 address counts as IPv4. */
static __always_inline void remote_of(struct bpf_sock_ops *ctx, struct prefix *key)
{
	__u32 *address = key->address;

	if (ctx->family == AF_INET) {
		key->family = 4;
		address[0] = ctx->remote_ip4;
	} else {
		__u32 a = ctx->remote_ip6[0], b = ctx->remote_ip6[1], c = ctx->remote_ip6[2];
		__u32 d = ctx->remote_ip6[3];

		if (!a && !b && c == bpf_htonl(0xffff)) {
			key->family = 4;
			address[0] = d;
			return;
		}
		key->family = 6;
		address[0] = a;
		address[1] = b;
		address[2] = c;
		address[3] = d;
	}
}

/* The number of the rule for a prefix and the ports of both ends, from 1; 0: there is none. A global function, so
 * that the verifier goes through it once and not for every cgroup, which took half a second.
 */
__noinline __u32 number_of(const struct prefix *key, __u32 one, __u32 other)
{
	struct ranges *ranges = key ? bpf_map_lookup_elem(&prefixes, key) : NULL;

	for (__u32 i = 0; ranges && i < RANGES_MAX && i < ranges->count; i++) {
		struct range *range = &ranges->of[i];

		if ((one >= range->least && one <= range->most) ||
		    (other >= range->least && other <= range->most))
			return range->rule + 1;
	}
	return 0;
}

static __always_inline __u32 number_in(struct bpf_sock_ops *ctx, struct prefix *key, __u64 cgroup)
{
	__u32 one = bpf_ntohl(ctx->remote_port), other = ctx->local_port, number;

	key->cgroup = cgroup;
	key->namespace = bpf_get_netns_cookie(ctx);
	number = number_of(key, one, other);
	if (number)
		return number;
	key->namespace = 0;
	return number_of(key, one, other);
}

static __always_inline __u32 number_any(struct bpf_sock_ops *ctx, struct prefix *key)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	for (int level = CGROUPS_MAX - 1; tp && level >= 0; level--) {
		__u64 cgroup = cgroup_at(tp, level);
		__u32 number = cgroup ? number_in(ctx, key, cgroup) : 0;

		if (number)
			return number;
	}
	return number_in(ctx, key, 0);
}

static __always_inline void give(struct bpf_sock_ops *ctx, struct rule *rule, __u32 number)
{
	struct bpf_sock *sk = ctx->sk;
	char before[CONTROL_NAME_MAX] = {};
	struct flow *flow;

	if (!sk)
		return;
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow)
		return;
	bpf_getsockopt(ctx, SOL_TCP, TCP_CONGESTION, before, sizeof(before));
	flow->target = rule->target;
	if (bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, rule->control, CONTROL_NAME_MAX)) {
		__sync_fetch_and_add(&rule->refused, 1);
		return;
	}
	/* If it was moved while it was being made, it had another control before that. */
	if (!flow->rule)
		__builtin_memcpy(flow->before, before, sizeof(before));
	flow->rule = number + 1;
	__sync_fetch_and_add(&rule->chosen, 1);
}

SEC("sockops")
int choose(struct bpf_sock_ops *ctx)
{
	struct prefix key = {};
	struct rule *rule;
	__u32 number;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	remote_of(ctx, &key);
	key.bits = 64 + 64 + 32 + (key.family == 4 ? 32 : 128);
	number = number_any(ctx, &key);
	if (!number)
		return 1;
	number--;
	rule = bpf_map_lookup_elem(&rules, &number);
	if (rule && rule->used)
		give(ctx, rule, number);
	return 1;
}
