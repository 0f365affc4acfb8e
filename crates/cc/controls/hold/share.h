/* SPDX-License-Identifier: GPL-2.0 */
/* Shares: rates that several connections hold together, each share as long as its lease lasts.
 *
 * A share is divided equally among its active connections. A connection is active if its data waits only for its turn.
 * It is not active if all its data is in flight, if the receiver's window stops it, or after several timeouts in a row.
 * What inactive connections send, a little now and then or less than their part, is counted. The active ones send less
 * by that amount: each counts its part of it as sent by itself (schedule.h). So the sum never exceeds the share.
 *
 * The state of a connection is in its private part, under its socket's lock. An active connection is counted again in each
 * epoch. A kernel may skip the program that would report the end of a connection, or that it is idle (ARCHITECTURE.md).
 * Such a connection is counted for two epochs at most. A connection that sends is updated before each packet, and an
 * epoch is long enough for the slowest active one.
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
	STALLED_TIMEOUTS = 2, /* in a row, without an ACK */
	SHARE_LEAST_BPS = 8,  /* of one connection; 0 would be no target */
	LEAVES_AT_ONCE = 2,   /* segments that leave at once; more wait for their turn */
	HELD_NS = 1000000,    /* a shorter wait of pacing comes from coarse timers alone */
	EPOCH_NS = 1 << 27,   /* at least */
	EPOCH_PACKETS = 4,    /* of LEAVES_AT_ONCE segments */
};

/* A connection of a share; in its private part. */
struct member {
	__u16 share; /* 0: of none */
	__u32 epoch; /* the last in which it was counted as active; 0: it is not active */
	__u32 sent_bytes; /* its bytes that are counted, modulo 2^32, as below */
	__u32 acked_bytes;
	__u32 beside_bytes; /* the share's beside_bytes at its last update */
};

/* What the others of a share leave to a connection. */
struct part {
	__u64 rate_bps; /* 0: nothing to hold */
	__u64 forgo_ns; /* its time that others have used */
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

static __always_inline bool waits(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u32 mss = max(tp->mss_cache, 1U), waiting = tp->write_seq - tp->snd_nxt;
	__s32 room = tp->snd_una + tp->snd_wnd - tp->snd_nxt;

	if (is_stalled(sk))
		return false;
	if (room < (__s32)min(waiting, mss))
		waiting = 0;
	if (tp->lost_out > tp->retrans_out)
		waiting += (tp->lost_out - tp->retrans_out) * mss;
	if (!waiting)
		return false;
	return waiting > LEAVES_AT_ONCE * mss || tp->tcp_wstamp_ns > tp->tcp_clock_cache + HELD_NS ||
	       tcp_packets_in_flight(tp) >= tp->snd_cwnd;
}

static __always_inline struct use *use_of(const struct member *member)
{
	__u32 place = member->share - 1;

	return bpf_map_lookup_elem(&uses, &place);
}

/* Call it under the lock. `rate_bps` is the share's rate. At a low rate a segment of `segment_bytes` may take long. */
static __always_inline void begin_epoch(struct use *use, __u64 now_ns, __u64 rate_bps, __u64 segment_bytes)
{
	__u64 active = use->active + use->active_before + 1ULL;
	__u64 packet_ns = LEAVES_AT_ONCE * segment_bytes * active * 8000000000ULL / max(rate_bps, 1ULL);
	__u64 lasts_ns = rate_bps ? max(EPOCH_PACKETS * packet_ns, (__u64)EPOCH_NS) : EPOCH_NS;
	__u64 since_ns = now_ns - use->epoch_began_ns;

	use->epoch_lasts_ns = lasts_ns;
	if ((__s64)since_ns < (__s64)lasts_ns)
		return;
	use->active_before = since_ns < 2 * lasts_ns ? use->active : 0;
	use->epoch += since_ns < 2 * lasts_ns ? 1 : 2;
	use->active = 0;
	use->epoch_began_ns = now_ns;
}

/* Call it under the lock. Returns whether the connection was counted until now. */
static __always_inline bool say_active(struct member *member, struct use *use, bool active)
{
	bool now = member->epoch && member->epoch == use->epoch;
	bool before = member->epoch && member->epoch + 1 == use->epoch;

	if (before)
		use->active_before--;
	if (now && !active)
		use->active--;
	if (active && !now)
		use->active++;
	member->epoch = active ? use->epoch : 0;
	return now || before;
}

/* Counts what the connection has sent, and whether it is active from now on. Returns its part of the share. */
static __always_inline struct part take_part(const struct sock *sk, struct member *member, struct use *use,
					     __u64 rate_bps, bool active, __u32 overhead)
{
	__u32 sent = wire_bytes(sk, overhead), acked = tcp_sk(sk)->bytes_acked;
	__u32 new_sent = sent - member->sent_bytes, new_acked = acked - member->acked_bytes;
	__u64 now_ns = bpf_ktime_get_boot_ns();
	__u32 others, among;
	struct part part = {};
	bool counted;

	bpf_spin_lock(&use->lock);
	begin_epoch(use, now_ns, rate_bps, tcp_sk(sk)->mss_cache + overhead);
	counted = say_active(member, use, active);
	use->sent_bytes += new_sent;
	use->acked_bytes += new_acked;
	others = (__u32)use->beside_bytes - member->beside_bytes;
	if (!counted)
		use->beside_bytes += new_sent;
	member->beside_bytes = use->beside_bytes;
	among = use->active + use->active_before + !active;
	bpf_spin_unlock(&use->lock);
	member->sent_bytes = sent;
	member->acked_bytes = acked;
	if (rate_bps) {
		part.rate_bps = max(rate_bps / max(among, 1U), (__u64)SHARE_LEAST_BPS);
		part.forgo_ns = others * 8000000000ULL / rate_bps;
	}
	return part;
}

/* The rate of the share under its lease. */
static __always_inline __u64 rate_of_share(const struct member *member)
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
	return bpf_ktime_get_boot_ns() < until_ns ? rate_bps : minimum_bps;
}

static __always_inline void leave_share(const struct sock *sk, struct member *member, __u32 overhead)
{
	struct use *use = use_of(member);

	if (!use)
		return;
	take_part(sk, member, use, rate_of_share(member), false, overhead);
	bpf_spin_lock(&use->lock);
	use->connections--;
	bpf_spin_unlock(&use->lock);
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
	member->epoch = 0;
	member->sent_bytes = wire_bytes(sk, overhead);
	member->acked_bytes = tcp_sk(sk)->bytes_acked;
	bpf_spin_lock(&use->lock);
	use->connections++;
	member->beside_bytes = use->beside_bytes;
	bpf_spin_unlock(&use->lock);
}

#endif
