// SPDX-License-Identifier: GPL-2.0
/* Walks the connections and listeners of a network namespace: reports each, or carries out orders.
 * User space decides which to change. An order names a connection by its cookie.
 */
#include "cgroups.h"
#include "storage.h"

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set before loading */
	__type(key, __u64);
	__type(value, struct order);
} orders SEC(".maps");

static __always_inline void read_control(const struct tcp_sock *tp, char *name)
{
	const struct tcp_congestion_ops *ops = tp->inet_conn.icsk_ca_ops;

	bpf_probe_read_kernel(name, CONTROL_NAME_MAX, &ops->name);
}

static __always_inline void read_address(__u8 *to, __u32 family, const __be32 *v4, const struct in6_addr *v6)
{
	if (family == AF_INET)
		bpf_probe_read_kernel(to, 4, v4);
	else
		bpf_probe_read_kernel(to, 16, v6);
}

SEC("iter/tcp")
int list(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp = common ? bpf_skc_to_tcp_sock(common) : NULL;
	struct connection found = {};
	struct flow *flow;

	if (!tp)
		return 0;
	found.cookie = bpf_get_socket_cookie(tp);
	found.family = common->skc_family;
	found.state = common->skc_state;
	found.local_port = common->skc_num;
	found.remote_port = bpf_ntohs(common->skc_dport);
	read_address(found.local, found.family, &common->skc_rcv_saddr, &common->skc_v6_rcv_saddr);
	read_address(found.remote, found.family, &common->skc_daddr, &common->skc_v6_daddr);
	found.window = tp->snd_cwnd;
	found.srtt_us = tp->srtt_us >> 3;
	for (__u32 level = 0; level < CGROUPS_MAX; level++)
		found.cgroups[level] = cgroup_at(tp, level);
	read_control(tp, found.control);
	flow = bpf_sk_storage_get(&flows, tp, 0, 0);
	if (flow) {
		found.known = 1;
		found.flow = *flow;
	}
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

static __always_inline bool same_name(const char *a, const char *b)
{
	for (int i = 0; i < CONTROL_NAME_MAX; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

SEC("iter/tcp")
int change(struct bpf_iter__tcp *ctx)
{
	struct sock_common *common = ctx->sk_common;
	struct tcp_sock *tp = common ? bpf_skc_to_tcp_sock(common) : NULL;
	char now[CONTROL_NAME_MAX] = {};
	struct order *order;
	struct flow *flow;
	__u64 cookie;

	if (!tp)
		return 0;
	cookie = bpf_get_socket_cookie(tp);
	order = bpf_map_lookup_elem(&orders, &cookie);
	if (!order)
		return 0;
	read_control(tp, now);
	if (!same_name(now, order->from))
		return 0;
	flow = bpf_sk_storage_get(&flows, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!flow) {
		order->result = -12; /* ENOMEM */
		return 0;
	}
	if (order->flags & ORDER_TARGET)
		flow->target = order->target;
	if (order->flags & ORDER_MOVE)
		order->result = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, order->to, CONTROL_NAME_MAX);
	else
		order->result = 0;
	if (order->result)
		return 0;
	if (order->flags & ORDER_REMEMBER) {
		if (!flow->rule)
			__builtin_memcpy(flow->before, now, sizeof(now));
		flow->rule = order->rule;
	}
	if (order->flags & ORDER_FORGET)
		flow->rule = 0;
	return 0;
}
