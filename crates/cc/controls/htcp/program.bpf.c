// SPDX-License-Identifier: GPL-2.0
/* H-TCP: growth rises with the time since the last loss; the cut follows the range of the RTT.
 *
 * Source: D. Leith and R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004;
 * draft-leith-tcp-htcp-06 (2008); behaviour as of Linux 6.18 net/ipv4/tcp_htcp.c.
 * With Δ seconds since the last loss, β the part of the window a loss leaves:
 *   α(Δ) = 1 for Δ ≤ 1 s, else 1 + 10 (Δ − 1) + ((Δ − 1) / 2)², packets a round trip, scaled by the RTT
 *   over 100 ms (the ratio within 0.1 to 2) and by 2 (1 − β)
 *   β = least RTT / greatest RTT within 0.5 to 0.8; 0.5 when throughput changed by a fifth between losses
 * α and β are fixed-point with 7 fractional bits.
 * Deviations: time in microseconds, where Linux counts jiffies, so that results do not depend on HZ.
 */
#include "skipped.h"

char LICENSE[] SEC("license") = "GPL";

SEC(".rodata.params")
const volatile struct {
	__u64 rtt_scaling;      /* 0 or 1 */
	__u64 bandwidth_switch; /* 0 or 1 */
} parameters = {};

enum {
	ONE = 1 << 7,
	BETA_MIN = 64,  /* 0.5 */
	BETA_MAX = 102, /* 0.8 */
	SECOND_US = 1000000,
	RTT_STEP_US = 20000,  /* the greatest RTT follows in steps of at most this */
	RTT_LEAST_US = 10000, /* below, β stays 0.5 */
};

struct htcp {
	__u64 last_us; /* end of the last congestion */
	__u64 undo_last_us;
	__u64 counted_since_us;
	__u32 alpha;
	__u32 beta;
	__u32 adaptive; /* β follows the RTT after the first congestion */
	__u32 acked;    /* by the latest ACK */
	__u32 packets;  /* acknowledged since counted_since_us */
	__u32 min_rtt_us;
	__u32 max_rtt_us;
	__u32 undo_max_rtt_us;
	/* Packets per second. */
	__u32 max_rate;
	__u32 old_max_rate;
	__u32 undo_old_max_rate;
	__u32 rate;
	struct had had;
};

_Static_assert(sizeof(struct htcp) <= 13 * sizeof(__u64), "fits a socket's private part");

static __always_inline __u64 clock_us(void)
{
	return bpf_ktime_get_ns() / 1000;
}

static __always_inline void begin(struct htcp *flow)
{
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->alpha = ONE;
	flow->beta = BETA_MIN;
	flow->acked = 1;
	flow->last_us = clock_us();
}

SEC("struct_ops")
void BPF_PROG(htcp_init, struct sock *sk)
{
	begin(private_of(sk));
}

static __always_inline void measure_rtt(struct htcp *flow, __u8 state, __u32 rtt_us)
{
	if (!flow->min_rtt_us || rtt_us < flow->min_rtt_us)
		flow->min_rtt_us = rtt_us;
	if (state != TCP_CA_Open)
		return;
	if (flow->max_rtt_us < flow->min_rtt_us)
		flow->max_rtt_us = flow->min_rtt_us;
	if (rtt_us > flow->max_rtt_us && rtt_us <= flow->max_rtt_us + RTT_STEP_US)
		flow->max_rtt_us = rtt_us;
}

/* Measures the throughput of the round trip that has ended, smoothed, and its maximum since the last loss. */
static __always_inline void measure_rate(struct htcp *flow, __u64 now, __u64 took_us)
{
	__u32 rate = (__u64)flow->packets * SECOND_US / took_us;

	if ((now - flow->last_us) / flow->min_rtt_us <= 3) {
		flow->max_rate = flow->rate = rate;
	} else {
		flow->rate = (3 * (__u64)flow->rate + rate) / 4;
		flow->max_rate = max(flow->max_rate, flow->rate);
	}
	flow->packets = 0;
	flow->counted_since_us = now;
}

SEC("struct_ops")
void BPF_PROG(htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *flow = private_of(sk);
	__u8 state = ca_state(sk);
	__u64 now = clock_us();

	if (!flow->beta) /* the kernel skipped the program that begins it */
		begin(flow);
	if (state == TCP_CA_Open)
		flow->acked = sample->pkts_acked;
	if (sample->rtt_us > 0)
		measure_rtt(flow, state, sample->rtt_us);
	if (!parameters.bandwidth_switch)
		return;
	if (state != TCP_CA_Open && state != TCP_CA_Disorder) {
		flow->packets = 0;
		flow->counted_since_us = now;
		return;
	}
	flow->packets += sample->pkts_acked;

	__u64 took_us = now - flow->counted_since_us;

	if (flow->packets >= tcp_sk(sk)->snd_cwnd - max(flow->alpha >> 7, 1U) && flow->min_rtt_us &&
	    took_us >= flow->min_rtt_us)
		measure_rate(flow, now, took_us);
}

static __always_inline void update_beta(struct htcp *flow)
{
	if (parameters.bandwidth_switch) {
		__u64 rate = flow->max_rate, old = flow->old_max_rate;

		flow->old_max_rate = rate;
		if (5 * rate < 4 * old || 5 * rate > 6 * old) {
			flow->beta = BETA_MIN;
			flow->adaptive = 0;
			return;
		}
	}
	if (!flow->adaptive || flow->min_rtt_us <= RTT_LEAST_US || !flow->max_rtt_us) {
		flow->beta = BETA_MIN;
		flow->adaptive = 1;
		return;
	}

	__u32 beta = ((__u64)flow->min_rtt_us << 7) / flow->max_rtt_us;

	flow->beta = min(max(beta, (__u32)BETA_MIN), (__u32)BETA_MAX);
}

static __always_inline void update_alpha(struct htcp *flow)
{
	__u64 since_us = clock_us() - flow->last_us;
	__u64 factor = 1;

	if (since_us > SECOND_US) {
		__u64 ms = min(since_us - SECOND_US, 3600ULL * SECOND_US) / 1000;

		factor = 1 + (10 * ms + ms / 2 * (ms / 2) / 1000) / 1000;
	}
	if (parameters.rtt_scaling && flow->min_rtt_us) {
		__u32 scale = (SECOND_US << 3) / 10 / flow->min_rtt_us;

		scale = min(max(scale, 1U << 2), 10U << 3);
		factor = max((factor << 3) / scale, 1ULL);
	}
	flow->alpha = 2 * factor * (ONE - flow->beta);
	if (!flow->alpha)
		flow->alpha = ONE;
}

static __always_inline __u32 after_loss(const struct htcp *flow, __u64 window)
{
	return max((__u32)(window * flow->beta >> 7), 2U);
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_ssthresh, struct sock *sk)
{
	struct htcp *flow = private_of(sk);

	update_beta(flow);
	update_alpha(flow);
	if (flow->min_rtt_us && flow->max_rtt_us > flow->min_rtt_us)
		flow->max_rtt_us =
			flow->min_rtt_us + (__u64)(flow->max_rtt_us - flow->min_rtt_us) * 95 / 100;
	return after_loss(flow, tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
void BPF_PROG(htcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *flow = private_of(sk);

	mend_or_note(tp, &flow->had, after_loss(flow, flow->had.window));
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	if ((__u64)tp->snd_cwnd_cnt * flow->alpha >> 7 >= tp->snd_cwnd) {
		if (tp->snd_cwnd < tp->snd_cwnd_clamp)
			tp->snd_cwnd = tp->snd_cwnd + 1;
		tp->snd_cwnd_cnt = 0;
		update_alpha(flow);
	} else {
		tp->snd_cwnd_cnt = tp->snd_cwnd_cnt + flow->acked;
	}
	flow->acked = 1;
}

SEC("struct_ops")
void BPF_PROG(htcp_set_state, struct sock *sk, __u8 new_state)
{
	struct htcp *flow = private_of(sk);

	if (new_state == TCP_CA_Open) {
		if (flow->undo_last_us) {
			flow->last_us = clock_us();
			flow->undo_last_us = 0;
		}
	} else if (new_state >= TCP_CA_CWR) {
		flow->undo_last_us = flow->last_us;
		flow->undo_max_rtt_us = flow->max_rtt_us;
		flow->undo_old_max_rate = flow->old_max_rate;
		flow->last_us = clock_us();
	}
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_min_tso_segs, struct sock *sk)
{
	struct htcp *flow = private_of(sk);

	mend(tcp_sk(sk), &flow->had, after_loss(flow, flow->had.window));
	return MIN_TSO_SEGS;
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	struct htcp *flow = private_of(sk);

	if (flow->undo_last_us) {
		flow->last_us = flow->undo_last_us;
		flow->max_rtt_us = flow->undo_max_rtt_us;
		flow->old_max_rate = flow->undo_old_max_rate;
		flow->undo_last_us = 0;
	}
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.init = (void *)htcp_init,
	.ssthresh = (void *)htcp_ssthresh,
	.cong_avoid = (void *)htcp_cong_avoid,
	.set_state = (void *)htcp_set_state,
	.pkts_acked = (void *)htcp_pkts_acked,
	.min_tso_segs = (void *)htcp_min_tso_segs,
	.undo_cwnd = (void *)htcp_undo_cwnd,
	.name = "hd_htcp",
};
