// SPDX-License-Identifier: GPL-2.0
/* Gives connections a congestion control when they are made, by whose they are, where they go and their ports.
 * The rules of the deepest cgroup come first, those of no cgroup last. Prefixes of different rules never overlap
 * in one cgroup and network namespace, which user space sees to, so the longest is the only one.
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

static __always_inline struct range *range_of(struct ranges *ranges, __u32 one, __u32 other)
{
#pragma unroll
	for (__u32 i = 0; i < RANGES_MAX; i++) {
		struct range *range = &ranges->of[i];

		if (i >= ranges->count)
			break;
		if ((one >= range->least && one <= range->most) ||
		    (other >= range->least && other <= range->most))
			return range;
	}
	return NULL;
}

static __always_inline struct range *find(const struct bpf_sock_ops *ctx, const struct prefix *key)
{
	struct ranges *ranges = bpf_map_lookup_elem(&prefixes, key);

	return ranges ? range_of(ranges, bpf_ntohl(ctx->remote_port), ctx->local_port) : NULL;
}

static __always_inline struct range *find_in(struct bpf_sock_ops *ctx, struct prefix *key, __u64 cgroup)
{
	struct range *range;

	key->cgroup = cgroup;
	key->namespace = bpf_get_netns_cookie(ctx);
	range = find(ctx, key);
	if (range)
		return range;
	key->namespace = 0;
	return find(ctx, key);
}

static __always_inline struct range *find_any(struct bpf_sock_ops *ctx, struct prefix *key)
{
	struct bpf_sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : NULL;

	for (int level = CGROUPS_MAX - 1; tp && level >= 0; level--) {
		__u64 cgroup = cgroup_at(tp, level);
		struct range *range = cgroup ? find_in(ctx, key, cgroup) : NULL;

		if (range)
			return range;
	}
	return find_in(ctx, key, 0);
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
	/* Moved while it was being made, it had another control before that. */
	if (!flow->rule)
		__builtin_memcpy(flow->before, before, sizeof(before));
	flow->rule = number + 1;
	__sync_fetch_and_add(&rule->chosen, 1);
}

SEC("sockops")
int choose(struct bpf_sock_ops *ctx)
{
	struct prefix key = {};
	struct range *range;
	struct rule *rule;
	__u32 number;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	remote_of(ctx, &key);
	key.bits = 64 + 64 + 32 + (key.family == 4 ? 32 : 128);
	range = find_any(ctx, &key);
	if (!range)
		return 1;
	number = range->rule;
	rule = bpf_map_lookup_elem(&rules, &number);
	if (rule && rule->used)
		give(ctx, rule, number);
	return 1;
}
