// SPDX-License-Identifier: GPL-2.0
/* A held window, for a path whose rate is guaranteed: no slow start, no cut on loss, paced.
 *
 * Source: the LSST transfer's fixed window (ARCHITECTURE.md), finished. The target is a window in packets, or a rate
 * on the wire, or a part of a share's (share.h). A rate becomes a window: rate × (base RTT + 10 ms) / wire bytes of
 * a packet, plus `headroom`. The base RTT is the least of the last `base_rtt_window` (and at least four round trips),
 * so that it follows a change of route; pacing keeps the rate even while the RTT holds a queue.
 *
 * Pacing keeps a schedule (schedule.h), because the kernel's own pacing catches up with half a packet of a timer's
 * delay at most.
 *
 * Guard: when more than `guard_loss` of the packets were lost in each of `guard_rounds` round trips, the
 * window is halved and the flow continues as Reno (RFC 5681), below the target. After `return_rounds` round trips
 * below half that loss it returns to its target. Each further fall that follows soon doubles this wait.
 *
 * With cong_control the kernel leaves window and pacing to us alone: both are set at each ACK.
 * Its arguments after the socket changed in Linux 6.10, so none is used.
 */
#include "schedule.h"
#include "share.h"

char LICENSE[] SEC("license") = "GPL";

SEC(".rodata.params")
const volatile struct {
	__u64 headroom;        /* parts per thousand of the window */
	__u64 frame_overhead;  /* bytes */
	__u64 base_rtt_window; /* microseconds */
	__u64 guard_loss;      /* parts per million */
	__u64 guard_rounds;
	__u64 return_rounds;
} parameters = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct target);
} default_target SEC(".maps");

enum {
	LOOK_EVERY_US = 1000,  /* how long a new target may go unnoticed */
	ROUND_LEAST_PACKETS = 8, /* in a round trip with fewer, the loss is not measured */
	CALM_ROUNDS = 100,       /* after this many the last fall does not count as recent any more */
	WAITS_MAX = 6,           /* doublings */
	WINDOW_MIN = 2,
	AHEAD = 64,          /* segments; a packet of segmentation offload holds less */
};

struct hold {
	struct schedule schedule;
	__u32 window_target; /* 0: the schedule's rate is the target */
	__u32 looked_us;
	__u32 round_us;
	__u32 round_delivered;
	__u32 round_lost;
	__u32 seen_delivered; /* at the last ACK */
	__u32 epoch_us;       /* start of the newer half of the base RTT's window */
	__u32 rtt_old_us;     /* least of the older half; 0: none */
	__u32 rtt_new_us;
	__u8 state;
	__u8 doublings;
	__u16 loud; /* round trips in a row above the guard's loss */
	__u16 calm; /* round trips in a row below it */
	__u8 paced; /* we switched pacing on */
	struct member member;
};

_Static_assert(sizeof(struct hold) <= 13 * sizeof(__u64), "fits a socket's private part");

static __always_inline __u32 base_rtt_us(const struct tcp_sock *tp, const struct hold *hold)
{
	__u32 older = hold->rtt_old_us, newer = hold->rtt_new_us;
	__u32 least = !older ? newer : !newer ? older : min(older, newer);

	return least ? least : tp->srtt_us >> 3;
}

static __always_inline void measure_rtt(struct tcp_sock *tp, struct hold *hold, __u32 rtt_us)
{
	__u32 half_us = max((__u32)parameters.base_rtt_window / 2, 2 * (tp->srtt_us >> 3));

	if (now_us(tp) - hold->epoch_us > half_us) {
		hold->rtt_old_us = hold->rtt_new_us;
		hold->rtt_new_us = 0;
		hold->epoch_us = now_us(tp);
	}
	if (!hold->rtt_new_us || rtt_us < hold->rtt_new_us)
		hold->rtt_new_us = rtt_us;
}

/* Bytes on the wire beside a packet's payload. */
static __always_inline __u32 overhead(const struct sock *sk)
{
	__u32 ip = sk->__sk_common.skc_family == AF_INET6 ? 40 : 20;

	return tcp_sk(sk)->tcp_header_len + ip + parameters.frame_overhead;
}

/* Returns the target in packets, by the base RTT, and sets the schedule's rate on the wire. */
static __always_inline __u32 reckon(const struct sock *sk, struct hold *hold)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u64 rtt_us = max(base_rtt_us(tp, hold), 1U);
	__u64 wire = max(tp->mss_cache, 1U) + overhead(sk);
	__u64 window = hold->window_target;

	if (window) {
		hold->schedule.rate_Bps = window * wire * 1000000 / rtt_us;
	} else {
		window = hold->schedule.rate_Bps * (rtt_us + LATE_US) / 1000000 / wire;
		window += window * parameters.headroom / 1000 + 1;
	}
	return max((__u32)min(window, (__u64)tp->snd_cwnd_clamp), (__u32)WINDOW_MIN);
}

/* Called at each look, because a kernel may skip the program that begins a connection (ARCHITECTURE.md). */
static __always_inline void begin_pacing(struct sock *sk, struct hold *hold)
{
	if (sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
		hold->paced = 1;
	}
}

static __always_inline void pace(struct sock *sk, __u64 rate_Bps)
{
	sk->sk_pacing_rate = max(min(rate_Bps, (__u64)sk->sk_max_pacing_rate), 1ULL);
}

/* Sets the pacing of what leaves next, by the schedule. */
static __always_inline void pace_it(struct sock *sk, struct hold *hold)
{
	__u64 mss = max(tcp_sk(sk)->mss_cache, 1U);
	__u32 beside = overhead(sk);
	__u64 wire_Bps = follow(&hold->schedule, tcp_sk(sk), wire_bytes(sk, beside));

	pace(sk, wire_Bps * mss / (mss + beside));
}

static __always_inline void hold_it(struct sock *sk, struct hold *hold)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 in_flight = tcp_packets_in_flight(tp), window = reckon(sk, hold);

	/* With a window below what is in flight the sender would stop until that is acknowledged. */
	if (in_flight > window)
		window = max(window, min(tp->snd_cwnd, in_flight + AHEAD));
	tp->snd_cwnd = window;
	pace_it(sk, hold);
}

/* If `moved`, only the share's other connections or its lease have changed, and the guard's counts stay valid. */
static __always_inline void change_target(struct sock *sk, struct hold *hold, __u64 rate_bps, __u32 window,
					  bool moved)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 rate_Bps = rate_bps / 8;
	bool any = rate_Bps || window;

	if (window == hold->window_target && (window || rate_Bps == hold->schedule.rate_Bps))
		return;
	hold->window_target = window;
	hold->schedule.rate_Bps = rate_Bps;
	if (moved && any && hold->state != HOLD_IDLE)
		return;
	begin(&hold->schedule);
	hold->loud = hold->calm = hold->doublings = 0;
	if (any) {
		hold->state = HOLD_HELD;
	} else {
		hold->state = HOLD_IDLE;
		tp->snd_ssthresh = max(tp->snd_cwnd, (__u32)WINDOW_MIN);
	}
}

static __always_inline void look_at_target(struct sock *sk, struct hold *hold, const struct flow *flow)
{
	__u32 zero = 0;
	const struct target *to = bpf_map_lookup_elem(&default_target, &zero);

	if (flow && (flow->target.rate_bps || flow->target.window))
		to = &flow->target;
	if (to)
		change_target(sk, hold, to->rate_bps, to->window, false);
}

/* Reads the connection's own target or the default, and counts in its share whether it is active. */
static __always_inline void look(struct sock *sk, struct hold *hold, const struct flow *flow)
{
	__u32 share = flow ? flow->target.share : 0;
	struct member *member = &hold->member;
	bool joins = share != member->share;
	struct part part;
	struct use *use;

	begin_pacing(sk, hold);
	hold->looked_us = now_us(tcp_sk(sk));
	if (joins) {
		leave_share(sk, member, overhead(sk));
		join_share(sk, member, share, overhead(sk));
	}
	use = use_of(member);
	if (!use) {
		look_at_target(sk, hold, flow);
		return;
	}
	part = take_part(sk, member, use, rate_of_share(member), waits(sk), overhead(sk));
	change_target(sk, hold, part.rate_bps, 0, !joins);
	forgo(&hold->schedule, part.forgo_ns);
}

/* Whether an update is due: it has begun or stopped to wait, all is acknowledged, or the last update is long ago. */
static __always_inline bool is_to_look(const struct sock *sk, const struct hold *hold)
{
	const struct member *member = &hold->member;
	const struct tcp_sock *tp = tcp_sk(sk);

	if (member->share && waits(sk) != (member->epoch != 0))
		return true;
	if (member->share && !tp->packets_out && (__u32)tp->bytes_acked != member->acked_bytes)
		return true;
	return now_us(tcp_sk(sk)) - hold->looked_us >= LOOK_EVERY_US;
}

static __always_inline void fall(struct tcp_sock *tp, struct hold *hold)
{
	hold->state = HOLD_FALLBACK;
	hold->calm = hold->loud = 0;
	tp->snd_ssthresh = max(tp->snd_cwnd / 2, (__u32)WINDOW_MIN);
	tp->snd_cwnd = tp->snd_ssthresh;
	tp->snd_cwnd_cnt = 0;
}

/* Called after a round trip in which `loss_ppm` was lost. */
static __always_inline void guard(struct tcp_sock *tp, struct hold *hold, struct flow *flow, __u32 loss_ppm)
{
	bool held = hold->state == HOLD_HELD;
	__u32 limit = held ? parameters.guard_loss : parameters.guard_loss / 2;

	if (loss_ppm > limit) {
		hold->loud = min(hold->loud + 1, 0xffff);
		hold->calm = 0;
	} else {
		hold->calm = min(hold->calm + 1, 0xffff);
		hold->loud = 0;
	}
	if (held && hold->loud >= parameters.guard_rounds) {
		fall(tp, hold);
		if (flow)
			flow->falls++;
	} else if (held && hold->calm >= CALM_ROUNDS) {
		hold->doublings = 0;
	} else if (!held && hold->calm >= parameters.return_rounds << (hold->doublings & 7)) {
		hold->state = HOLD_HELD;
		begin(&hold->schedule);
		hold->loud = hold->calm = 0;
		hold->doublings = min(hold->doublings + 1, WAITS_MAX);
		if (flow)
			flow->returns++;
	}
}

static __always_inline void begin_round(const struct tcp_sock *tp, struct hold *hold)
{
	hold->round_us = now_us(tp);
	hold->round_delivered = tp->delivered;
	hold->round_lost = tp->lost;
}

static __always_inline void end_round(struct sock *sk, struct hold *hold, struct flow *flow)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 lost = tp->lost - hold->round_lost;
	__u64 packets = (__u64)(tp->delivered - hold->round_delivered) + lost;
	bool enough = packets >= ROUND_LEAST_PACKETS;
	__u32 loss_ppm = enough ? lost * 1000000ULL / packets : 0;

	if (enough && hold->state != HOLD_IDLE)
		guard(tp, hold, flow, loss_ppm);
	if (flow) {
		flow->rounds++;
		if (hold->state == HOLD_HELD)
			flow->rounds_held++;
		flow->state = hold->state;
		flow->window = reckon(sk, hold);
		flow->base_rtt_us = base_rtt_us(tp, hold);
		if (enough)
			flow->loss_ppm = loss_ppm;
	}
	begin_round(tp, hold);
}

/* Acts as Reno with the pacing of Linux, below the target if there is one. */
static __always_inline void ordinary(struct sock *sk, struct hold *hold, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u8 state = ca_state(sk);
	__u32 srtt_us = max(tp->srtt_us >> 3, 1U);

	if (acked && state != TCP_CA_CWR && state != TCP_CA_Recovery)
		tcp_reno_cong_avoid(sk, 0, acked);
	if (hold->state == HOLD_FALLBACK) {
		tp->snd_cwnd = min(tp->snd_cwnd, reckon(sk, hold));
	}
	/* sysctl_tcp_pacing_ss_ratio and _ca_ratio: 200 % and 120 %. */
	__u64 percent = tp->snd_cwnd < tp->snd_ssthresh / 2 ? 200 : 120;

	pace(sk, (__u64)tp->snd_cwnd * tp->mss_cache * 10000 * percent / srtt_us);
}

static __always_inline void act(struct sock *sk, struct hold *hold, __u32 acked)
{
	if (hold->state == HOLD_HELD)
		hold_it(sk, hold);
	else
		ordinary(sk, hold, acked);
}

SEC("struct_ops")
void BPF_PROG(hold_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hold *hold = private_of(sk);
	struct flow *flow;

	__builtin_memset(hold, 0, sizeof(*hold));
	flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	hold->seen_delivered = tp->delivered;
	hold->epoch_us = now_us(tp);
	begin_round(tp, hold);
	look(sk, hold, flow);
	act(sk, hold, 0);
	if (flow)
		flow->state = hold->state;
}

/* The next control gets no pacing that we switched on, and no slow start from a held window. */
SEC("struct_ops")
void BPF_PROG(hold_release, struct sock *sk)
{
	struct hold *hold = private_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	leave_share(sk, &hold->member, overhead(sk));
	tp->snd_ssthresh = min(tp->snd_ssthresh, max(tp->snd_cwnd, (__u32)WINDOW_MIN));

	if (hold->paced && sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
}

SEC("struct_ops")
void BPF_PROG(hold_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hold *hold = private_of(sk);
	__u32 now = now_us(tp);
	__u32 acked = tp->delivered - hold->seen_delivered;
	bool round_over = now - hold->round_us >= max(tp->srtt_us >> 3, 1U);

	hold->seen_delivered = tp->delivered;
	if (round_over || is_to_look(sk, hold)) {
		struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

		look(sk, hold, flow);
		if (round_over)
			end_round(sk, hold, flow);
	}
	act(sk, hold, acked);
}

/* Called each time before anything leaves, also by the timer of pacing. */
SEC("struct_ops")
__u32 BPF_PROG(hold_min_tso_segs, struct sock *sk)
{
	struct hold *hold = private_of(sk);

	if (hold->member.share && is_to_look(sk, hold))
		look(sk, hold, bpf_sk_storage_get(&flows, sk, 0, 0));
	if (hold->state == HOLD_HELD)
		pace_it(sk, hold);
	return MIN_TSO_SEGS;
}

SEC("struct_ops")
void BPF_PROG(hold_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	if (sample->rtt_us > 0)
		measure_rtt(tcp_sk(sk), private_of(sk), sample->rtt_us);
}

/* A target set while the connection was silent counts from its next packet on. */
SEC("struct_ops")
void BPF_PROG(hold_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct hold *hold = private_of(sk);

	if (event != CA_EVENT_TX_START)
		return;
	look(sk, hold, bpf_sk_storage_get(&flows, sk, 0, 0));
	act(sk, hold, 0);
	begin_round(tcp_sk(sk), hold);
}

SEC("struct_ops")
void BPF_PROG(hold_set_state, struct sock *sk, __u8 new_state)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hold *hold = private_of(sk);

	/* After so long without an ACK a lease may have run out. */
	if (new_state == TCP_CA_Loss)
		look(sk, hold, bpf_sk_storage_get(&flows, sk, 0, 0));
	/* A timeout has set the window to what is in flight. A recovery of Reno begins at ssthresh. */
	if (hold->state == HOLD_HELD) {
		if (new_state == TCP_CA_Loss)
			hold_it(sk, hold);
	} else if (new_state == TCP_CA_CWR || new_state == TCP_CA_Recovery) {
		tp->snd_cwnd = min(tp->snd_cwnd, max(tp->snd_ssthresh, (__u32)WINDOW_MIN));
	}
}

SEC("struct_ops")
__u32 BPF_PROG(hold_ssthresh, struct sock *sk)
{
	const struct hold *hold = private_of(sk);
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return max(hold->state == HOLD_HELD ? cwnd : cwnd / 2, (__u32)WINDOW_MIN);
}

SEC("struct_ops")
__u32 BPF_PROG(hold_undo_cwnd, struct sock *sk)
{
	const struct hold *hold = private_of(sk);

	return hold->state == HOLD_HELD ? tcp_sk(sk)->snd_cwnd : tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.init = (void *)hold_init,
	.release = (void *)hold_release,
	.ssthresh = (void *)hold_ssthresh,
	.min_tso_segs = (void *)hold_min_tso_segs,
	.cong_control = (void *)hold_cong_control,
	.pkts_acked = (void *)hold_pkts_acked,
	.cwnd_event = (void *)hold_cwnd_event,
	.set_state = (void *)hold_set_state,
	.undo_cwnd = (void *)hold_undo_cwnd,
	.name = "hd_hold",
};
