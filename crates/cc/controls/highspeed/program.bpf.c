// SPDX-License-Identifier: GPL-2.0
/* HighSpeed TCP: beyond 38 packets, growth rises and the cut shrinks with the window.
 *
 * Source: S. Floyd, RFC 3649 (2003): the response function of §5, its table in appendix B;
 * behaviour as of Linux 6.18 net/ipv4/tcp_highspeed.c. Row i holds for windows up to steps[i].window
 * and adds i + 1 packets a round trip; the cut is ⌊256 b(w)⌋ / 256 with
 * b(w) = 0.5 − 0.4 (ln w − ln 38) / (ln 83000 − ln 38).
 * Deviations: none. As in Linux, slow start does not hand its rest on to the increase, and one ACK
 * counts once, however much it acknowledges. The clamp Linux sets against overflow is not needed here.
 */
#include "skipped.h"

char LICENSE[] SEC("license") = "GPL";

#define STEPS 72
#define STEPS_MASK 127 /* shows the verifier that an index lies within the table */

struct step {
	__u32 window;
	__u32 cut; /* 256ths */
};

static const struct step steps[STEPS_MASK + 1] = {
	{38, 128}, {118, 112}, {221, 104}, {347, 98}, {495, 93}, {663, 89},
	{851, 86}, {1058, 83}, {1284, 81}, {1529, 78}, {1793, 76}, {2076, 74},
	{2378, 72}, {2699, 71}, {3039, 69}, {3399, 68}, {3778, 66}, {4177, 65},
	{4596, 64}, {5036, 62}, {5497, 61}, {5979, 60}, {6483, 59}, {7009, 58},
	{7558, 57}, {8130, 56}, {8726, 55}, {9346, 54}, {9991, 53}, {10661, 52},
	{11358, 52}, {12082, 51}, {12834, 50}, {13614, 49}, {14424, 48}, {15265, 48},
	{16137, 47}, {17042, 46}, {17981, 45}, {18955, 45}, {19965, 44}, {21013, 43},
	{22101, 43}, {23230, 42}, {24402, 41}, {25618, 41}, {26881, 40}, {28193, 39},
	{29557, 39}, {30975, 38}, {32450, 38}, {33986, 37}, {35586, 36}, {37253, 36},
	{38992, 35}, {40808, 35}, {42707, 34}, {44694, 33}, {46776, 33}, {48961, 32},
	{51258, 32}, {53677, 31}, {56230, 30}, {58932, 30}, {61799, 29}, {64851, 28},
	{68113, 28}, {71617, 27}, {75401, 26}, {79517, 26}, {84035, 25}, {89053, 24},
};

struct highspeed {
	__u32 row; /* where the last search ended */
	struct had had;
};

SEC("struct_ops")
void BPF_PROG(highspeed_init, struct sock *sk)
{
	struct highspeed *flow = private_of(sk);

	__builtin_memset(flow, 0, sizeof(*flow));
}

static __always_inline __u32 window_of(__u32 row)
{
	barrier_var(row); /* or clang walks a pointer that the verifier cannot follow */
	return steps[row & STEPS_MASK].window;
}

static __always_inline __u32 row_of(__u32 row, __u32 window)
{
	for (int i = 0; i < STEPS && row < STEPS - 1 && window > window_of(row); i++)
		row++;
	for (int i = 0; i < STEPS && row > 0 && window <= window_of(row - 1); i++)
		row--;
	return row;
}

static __always_inline __u32 after_loss(const struct highspeed *flow, __u64 window)
{
	return max((__u32)(window - (window * steps[flow->row & STEPS_MASK].cut >> 8)), 2U);
}

SEC("struct_ops")
void BPF_PROG(highspeed_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *flow = private_of(sk);

	mend_or_note(tp, &flow->had, after_loss(flow, flow->had.window));

	__u32 cwnd = tp->snd_cwnd;

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	flow->row = row_of(flow->row, cwnd);
	if (cwnd >= tp->snd_cwnd_clamp)
		return;

	__u32 count = tp->snd_cwnd_cnt + flow->row + 1;

	if (count >= cwnd) {
		count -= cwnd;
		tp->snd_cwnd = cwnd + 1;
	}
	tp->snd_cwnd_cnt = count;
}

SEC("struct_ops")
__u32 BPF_PROG(highspeed_ssthresh, struct sock *sk)
{
	return after_loss(private_of(sk), tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(highspeed_min_tso_segs, struct sock *sk)
{
	struct highspeed *flow = private_of(sk);

	mend(tcp_sk(sk), &flow->had, after_loss(flow, flow->had.window));
	return MIN_TSO_SEGS;
}

SEC("struct_ops")
__u32 BPF_PROG(highspeed_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.init = (void *)highspeed_init,
	.ssthresh = (void *)highspeed_ssthresh,
	.cong_avoid = (void *)highspeed_cong_avoid,
	.min_tso_segs = (void *)highspeed_min_tso_segs,
	.undo_cwnd = (void *)highspeed_undo_cwnd,
	.name = "hd_highspeed",
};
