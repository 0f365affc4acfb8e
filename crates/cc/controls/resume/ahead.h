/* SPDX-License-Identifier: GPL-2.0 */
/* Connections that are made ahead of the first data: their first window is acknowledged before there is anything to send,
 * or under another control. Such a connection jumps without an ACK.
 */
#ifndef HOWDAH_AHEAD_H
#define HOWDAH_AHEAD_H

#include "connection.h"

enum {
	/* A confirmation is valid for this long, or for two round trips if those take longer. That is about as long as
	 * a window stays valid after the last segment (an RTO, by RFC 5681, 4.1; a second at least, by RFC 6298). Linux
	 * itself never restarts the window of a control with cong_control.
	 */
	BELIEVED_MS = 1000,
};

/* In milliseconds, so that the 32 bits do not wrap around within an hour of silence. */
static __always_inline __u32 now_ms(const struct tcp_sock *tp)
{
	return tp->tcp_mstamp / 1000;
}

/* Whether the newest RTT is recent enough to describe the path. */
static __always_inline bool is_recent(const struct tcp_sock *tp, const struct resume *resume)
{
	__u32 believed_ms = max(2 * (resume->rtt_us / 1000), (__u32)BELIEVED_MS);

	return resume->rtt_us && now_ms(tp) - resume->measured_ms <= believed_ms;
}

/* A first window that was acknowledged a short while ago under another control confirms the path as well. */
static __always_inline void take_over(const struct tcp_sock *tp, struct resume *resume)
{
	__u64 answered_us = tp->rack.mstamp + tp->rack.rtt_us;
	__u64 believed_us = max(2ULL * tp->rack.rtt_us, BELIEVED_MS * 1000ULL);

	/* The SYN counts as delivered. */
	if (tp->delivered <= FIRST_WINDOW || bpf_ktime_get_ns() / 1000 - answered_us > believed_us)
		return;
	resume->confirmed = tp->delivered;
	resume->rtt_us = tp->rack.rtt_us;
	resume->least_rtt_us = tp->rack.rtt_us;
	resume->measured_ms = answered_us / 1000;
}

/* Whether it may jump without an ACK: more data waits than the window permits, and the receiver has room for it (3.2). */
static __always_inline bool may_jump_unasked(const struct sock *sk, const struct resume *resume)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u32 permitted = tp->snd_nxt + room_of(tp), taken = tp->snd_una + tp->snd_wnd;

	if (!is_confirmed(tp, resume) || !is_recent(tp, resume) || ca_state(sk) > TCP_CA_Disorder)
		return false;
	return (__s32)(tp->write_seq - permitted) > 0 && (__s32)(taken - permitted) > 0;
}

#endif
