// SPDX-License-Identifier: GPL-2.0
/* General AIMD: the window grows by one packet in several round trips and falls by an eighth.
 *
 * Source: Y. R. Yang, S. S. Lam, "General AIMD Congestion Control", IEEE ICNP 2000, §3.
 * Deviations: none; growth and cut are parameters.
 */
#include "skipped.h"

char LICENSE[] SEC("license") = "GPL";

SEC(".rodata.params")
const volatile struct {
	__u64 rounds;   /* one packet more in so many round trips */
	__u64 md_shift; /* a loss takes the window's 2^-shift */
} parameters = {};

static __always_inline __u32 after_loss(__u32 window)
{
	return max(window - (window >> (parameters.md_shift & 31)), 2U);
}

SEC("struct_ops")
void BPF_PROG(gaimd_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct had *had = private_of(sk);

	mend_or_note(tp, had, after_loss(had->window));
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd * (__u32)parameters.rounds, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(gaimd_ssthresh, struct sock *sk)
{
	return after_loss(tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(gaimd_min_tso_segs, struct sock *sk)
{
	struct had *had = private_of(sk);

	mend(tcp_sk(sk), had, after_loss(had->window));
	return MIN_TSO_SEGS;
}

SEC("struct_ops")
__u32 BPF_PROG(gaimd_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.ssthresh = (void *)gaimd_ssthresh,
	.cong_avoid = (void *)gaimd_cong_avoid,
	.min_tso_segs = (void *)gaimd_min_tso_segs,
	.undo_cwnd = (void *)gaimd_undo_cwnd,
	.name = "hd_gaimd",
};
