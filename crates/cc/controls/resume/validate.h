/* SPDX-License-Identifier: GPL-2.0 */
/* Validating (RFC 9959, 3.4): the jump is acknowledged, then a probe, and the window grows to the capacity that the probe
 * has shown.
 */
#ifndef HOWDAH_VALIDATE_H
#define HOWDAH_VALIDATE_H

#include "connection.h"

enum {
	BEFORE_PROBE_SHIFT = 3, /* this part of the jump is acknowledged before the probe, to detect its queue */
	CLOCK_SHIFT = 3, /* a delay of an eighth of the probe comes from the clock, and not from the path */
};

/* How long the probe is sent, twice as densely as the jump. On a path that carries only the jump, the end of the probe
 * waits as long in the queue. That is twice the delay by which a queue is detected.
 */
static __always_inline __u32 probe_us(const struct resume *resume)
{
	return 2 * rise_us(resume->least_rtt_us, GROWN_SHIFT);
}

/* The segments of the probe: as many as segments of the jump that are acknowledged while the probe is sent. */
static __always_inline __u32 probe_segments(const struct resume *resume)
{
	return max((__u32)((__u64)resume->flight * probe_us(resume) / max(resume->least_rtt_us, 1U)), 1U);
}

static __always_inline void end_validating(struct sock *sk, struct resume *resume, __u32 threshold)
{
	tcp_sk(sk)->snd_ssthresh = threshold;
	become_normal(sk, resume, RESUME_VALIDATED);
}

static __always_inline void send_probe(struct sock *sk, struct resume *resume, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 more = min(acked, resume->probe);

	tp->snd_cwnd += more;
	resume->probe -= more;
	resume->probe_end = tp->snd_una + tp->snd_cwnd * tp->mss_cache;
}

/* The capacity that the probe has shown, segments: twice the jump, less by what the probe waited in the queue. */
static __always_inline __u32 carries(const struct resume *resume)
{
	__u32 sent_us = probe_us(resume), waited_us = resume->waited_us - 1;

	if (waited_us <= sent_us >> CLOCK_SHIFT)
		return NO_THRESHOLD;
	return 2 * (__u64)resume->flight * sent_us / (sent_us + waited_us);
}

/* Measures the RTT while the second half of the probe is acknowledged, and for half as long again. The queue of the whole
 * probe is estimated from that of a part. A late clock makes single values too large, so the least value counts.
 */
static __always_inline void await_probe(const struct sock *sk, struct resume *resume)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u32 all = 2 * probe_segments(resume), left = all / 4 * tp->mss_cache, back = all, waited_us;

	if (!is_past(tp, resume->probe_end - 2 * left))
		return;
	if (!is_past(tp, resume->probe_end))
		back -= (resume->probe_end - tp->snd_una) / max(tp->mss_cache, 1U);
	waited_us = (__u64)(resume->rtt_us - resume->least_rtt_us) * all / max(back, 1U);
	if (!resume->waited_us || waited_us < resume->waited_us - 1)
		resume->waited_us = waited_us + 1;
	if (!is_past(tp, resume->probe_end + left))
		return;
	resume->limit = max(min(min(carries(resume), resume->share), tp->snd_cwnd_clamp), tp->snd_cwnd);
	resume->mark = tp->snd_nxt;
	resume->coming = COMING_GROWTH;
}

/* Growth as in slow start at most (3.4): by the probe, and up to the capacity that it has shown. */
static __always_inline void validate(struct sock *sk, struct resume *resume, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_free = resume->rtt_us <= resume->least_rtt_us + rise_us(resume->least_rtt_us, GROWN_SHIFT);
	bool is_back = is_past(tp, resume->mark), is_used = tcp_is_cwnd_limited(sk);

	if (resume->coming == COMING_GROWTH) {
		if (is_free && is_used && tp->snd_cwnd < resume->limit)
			tp->snd_cwnd = min(tp->snd_cwnd + acked, resume->limit);
		if (is_back)
			end_validating(sk, resume, is_free ? resume->limit : tp->snd_cwnd);
		return;
	}
	if (resume->coming == COMING_JUMP) {
		if (resume->probe && is_free && is_used && is_past(tp, resume->probe_from))
			send_probe(sk, resume, acked);
		if (!is_back)
			return;
		if (resume->probe || !resume->probe_end) {
			end_validating(sk, resume, tp->snd_cwnd);
			return;
		}
		resume->coming = COMING_PROBE;
	}
	await_probe(sk, resume);
}

#endif
