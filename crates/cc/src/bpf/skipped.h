/* SPDX-License-Identifier: GPL-2.0 */
/* For programs that a kernel skips: it calls `ssthresh` or `undo_cwnd`, the program does not run, and what
 * lay on the stack is taken for its answer. Linux itself skips none; a kernel that guards the agent of its
 * virtual machine does in softirqs that interrupt that agent (ARCHITECTURE.md).
 *
 * A window grows by no more than what an ACK acknowledges, so that one beyond twice the greatest that the
 * connection has had is no window. The cut that was missed is made then.
 */
#ifndef HOWDAH_SKIPPED_H
#define HOWDAH_SKIPPED_H

#include "kernel.h"

enum { TCP_INFINITE_SSTHRESH = 0x7fffffff };

struct had {
	__u32 most;   /* the greatest window, or threshold it began with; 0: not looked yet */
	__u32 window; /* at the last look */
};

/* Looks, at an ACK before the window grows; whether window and threshold cannot be what a program said. */
static __always_inline bool was_skipped(const struct tcp_sock *tp, struct had *had)
{
	__u32 window = tp->snd_cwnd, threshold = tp->snd_ssthresh;
	__u64 limit = 2ULL * had->most;

	if (threshold == TCP_INFINITE_SSTHRESH)
		threshold = 0;
	if (limit && (window > limit || threshold > limit))
		return true;
	if (!limit)
		had->most = threshold;
	had->most = max(had->most, window);
	had->window = window;
	return false;
}

/* The cut, to `window`. */
static __always_inline void make_up(struct tcp_sock *tp, __u32 window)
{
	tp->snd_ssthresh = window;
	tp->snd_cwnd = min(tp->snd_cwnd, window);
}

#endif
