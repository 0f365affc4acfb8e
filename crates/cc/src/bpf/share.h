/* SPDX-License-Identifier: GPL-2.0 */
/* Shares: rates that several connections hold together, each for as long as its lease lasts.
 *
 * A share is divided equally among its active connections. Active is one whose data is on its way, or waits
 * for nothing but its turn: at a low rate and a short RTT nothing is on its way most of the time, and
 * counted by that alone, each would take the whole. One that the receiver holds up, or that hears
 * nothing for timeouts in a row, is not.
 *
 * A connection is counted in its private part, under its socket's lock, and counted out by release, which the kernel
 * calls however the connection or the program ends. So counts need nobody's care.
 */
#ifndef HOWDAH_SHARE_H
#define HOWDAH_SHARE_H

#include "storage.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHARES_MAX);
	__type(key, __u32);
	__type(value, struct share);
} shares SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SHARES_MAX);
	__type(key, __u32);
	__type(value, struct use);
} uses SEC(".maps");

enum {
	STALLED_TIMEOUTS = 2, /* in a row, with no word from the receiver */
	SHARE_LEAST_BPS = 8,  /* of one connection; 0 would be no target */
};

/* A connection of a share; in its private part. */
struct member {
	__u16 share; /* 0: of none */
	__u8 active;
	__u32 sent_bytes; /* what is counted of the connection's, modulo 2^32, as below */
	__u32 acked_bytes;
};

/* On the wire, modulo 2^32. `overhead`: bytes beside a packet's payload. */
static __always_inline __u32 wire_bytes(const struct sock *sk, __u32 overhead)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return (__u32)tp->bytes_sent + tp->data_segs_out * overhead;
}

static __always_inline bool is_stalled(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = (const struct inet_connection_sock *)sk;

	return icsk->icsk_retransmits >= STALLED_TIMEOUTS || icsk->icsk_probes_out >= STALLED_TIMEOUTS;
}

static __always_inline bool is_sending(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u32 unsent = tp->write_seq - tp->snd_nxt;

	if (is_stalled(sk))
		return false;
	return tp->packets_out || (unsent && tp->snd_wnd >= min(unsent, tp->mss_cache));
}

static __always_inline struct use *use_of(const struct member *member)
{
	__u32 place = member->share - 1;

	return bpf_map_lookup_elem(&uses, &place);
}

static __always_inline void count_bytes(const struct sock *sk, struct member *member, struct use *use,
					__u32 overhead)
{
	__u32 sent = wire_bytes(sk, overhead), acked = tcp_sk(sk)->bytes_acked;

	if (sent != member->sent_bytes)
		__sync_fetch_and_add(&use->sent_bytes, (__u64)(sent - member->sent_bytes));
	if (acked != member->acked_bytes)
		__sync_fetch_and_add(&use->acked_bytes, (__u64)(acked - member->acked_bytes));
	member->sent_bytes = sent;
	member->acked_bytes = acked;
}

static __always_inline void count_active(struct member *member, struct use *use, bool active)
{
	if (active == member->active)
		return;
	__sync_fetch_and_add(&use->active, active ? 1 : -1);
	member->active = active;
}

static __always_inline void leave_share(const struct sock *sk, struct member *member, __u32 overhead)
{
	struct use *use = use_of(member);

	if (!use)
		return;
	count_bytes(sk, member, use, overhead);
	count_active(member, use, false);
	__sync_fetch_and_add(&use->connections, -1);
	member->share = 0;
}

static __always_inline void join_share(const struct sock *sk, struct member *member, __u32 share,
					      __u32 overhead)
{
	struct use *use;

	member->share = share;
	use = use_of(member);
	if (!use) {
		member->share = 0;
		return;
	}
	__sync_fetch_and_add(&use->connections, 1);
	member->sent_bytes = wire_bytes(sk, overhead);
	member->acked_bytes = tcp_sk(sk)->bytes_acked;
}

/* What the lease and the other active connections leave to one. */
static __always_inline __u64 part_of_share(const struct member *member, const struct use *use)
{
	__u32 place = member->share - 1;
	struct share *share = bpf_map_lookup_elem(&shares, &place);
	__u64 rate_bps, minimum_bps, until_ns;

	if (!share)
		return 0;
	bpf_spin_lock(&share->lock);
	rate_bps = share->rate_bps;
	minimum_bps = share->minimum_bps;
	until_ns = share->until_ns;
	bpf_spin_unlock(&share->lock);
	if (bpf_ktime_get_boot_ns() >= until_ns)
		rate_bps = minimum_bps;
	if (!rate_bps)
		return 0;
	return max(rate_bps / max(use->active, 1U), (__u64)SHARE_LEAST_BPS);
}

#endif
