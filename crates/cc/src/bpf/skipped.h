/* SPDX-License-Identifier: GPL-2.0 */
/* For programs that a kernel skips: it calls `ssthresh` or `undo_cwnd`, the program does not run, and what
 * lay on the stack is taken for its answer. Linux itself skips none; a kernel that guards the agent of its
 * virtual machine does in softirqs that interrupt that agent (ARCHITECTURE.md).
 *
 * A window grows by no more than what an ACK acknowledges, so that one beyond twice the greatest that the
 * connection has had is no window, nor is such a threshold. That threshold tells of a cut that was missed,
 * which is made then; the window alone of an undo, and what it was before is put back. Cut instead, in the
 * slow start after a timeout, a connection kept a threshold of 91 packets and took minutes to mend its losses.
 *
 * It is looked for before anything leaves (`min_tso_segs`): at the next ACK, all that waited had left.
 */
#ifndef HOWDAH_SKIPPED_H
#define HOWDAH_SKIPPED_H

#include "kernel.h"

enum { TCP_INFINITE_SSTHRESH = 0x7fffffff };

struct had {
	__u32 most;   /* the greatest window, or threshold it began with; 0: not looked yet */
	__u32 window; /* at the last ACK that could raise it */
};

/* The threshold, or 0 where none was ever set. */
static __always_inline __u32 threshold_of(const struct tcp_sock *tp)
{
	return tp->snd_ssthresh == TCP_INFINITE_SSTHRESH ? 0 : tp->snd_ssthresh;
}

/* Called before anything leaves. Says whether something was put right; `cut` is what a loss leaves of had->window. */
static __always_inline bool mend(struct tcp_sock *tp, const struct had *had, __u32 cut)
{
	__u64 limit = 2ULL * had->most;

	if (!limit)
		return false;
	if (threshold_of(tp) > limit) {
		tp->snd_ssthresh = cut;
		tp->snd_cwnd = min(tp->snd_cwnd, cut);
		return true;
	}
	if (tp->snd_cwnd > limit) {
		tp->snd_cwnd = had->window;
		return true;
	}
	return false;
}

/* Called at an ACK, before the window grows. */
static __always_inline void mend_or_note(struct tcp_sock *tp, struct had *had, __u32 cut)
{
	if (mend(tp, had, cut))
		return;
	if (!had->most)
		had->most = threshold_of(tp);
	had->most = max(had->most, tp->snd_cwnd);
	had->window = tp->snd_cwnd;
}

#endif
