/* SPDX-License-Identifier: GPL-2.0 */
/* A schedule: what is due by rate and time against what was sent. `schedule.rs` beside it is the reference model.
 *
 * The kernel spaces packets by a timer each. If the timer is late, the kernel shortens the next wait by half a packet's
 * time at most (net/ipv4/tcp_output.c, tcp_update_skb_after_send). The rest of the delay is lost for good. A packet
 * takes a millisecond, so a machine that is now and then busy for some milliseconds would lose much of the rate.
 *
 * The schedule catches up with such delays: n packets behind, it sends n times as fast, up to CATCH_UP_MAX. It is a token
 * bucket: in any time t it sends rate × t + depth at most. The depth is LATE_US, or two packets of segmentation offload if
 * these take longer. A delay beyond the depth is given up. A sender that has sent all its data begins a new schedule, so
 * nothing is due for the time in which it had nothing to send. n packets ahead of the schedule, it sends at an n-th of the
 * rate, so that it is on time with the next packet.
 */
#ifndef HOWDAH_SCHEDULE_H
#define HOWDAH_SCHEDULE_H

#include "kernel.h"

enum {
	LATE_US = 10000, /* the delay of timers and ACKs that is caught up with */
	CATCH_UP_MAX = 4,
	OFFLOAD_MAX = 1 << 16, /* bytes; no packet of segmentation offload is larger */
};

struct schedule {
	__u64 rate_Bps; /* on the wire */
	__u64 now_ns;	/* when the next packet may leave, at the last update; 0: begins now */
	__s64 behind_ns;
	__u32 sent_bytes; /* on the wire, modulo 2^32 */
	__u32 packet_us;  /* the time that the last packet takes */
	__u32 written;	  /* the sequence number after all data that was written */
};

static __always_inline void begin(struct schedule *schedule)
{
	schedule->now_ns = 0;
}

/* Takes this much time from the schedule, because others have used it. */
static __always_inline void forgo(struct schedule *schedule, __u64 ns)
{
	schedule->behind_ns -= ns;
}

/* The rate for the packet that leaves next, bytes per second on the wire. */
static __always_inline __u64 follow(struct schedule *schedule, const struct tcp_sock *tp, __u32 sent_bytes)
{
	__u64 rate_Bps = max(schedule->rate_Bps, 1ULL);
	__u64 now_ns = max(tp->tcp_wstamp_ns, tp->tcp_clock_cache);
	__u32 bytes = sent_bytes - schedule->sent_bytes;
	bool all_sent = (__s32)(tp->snd_nxt - schedule->written) >= 0;
	__s64 behind_ns = 0, packet_ns, depth_ns;

	if (schedule->now_ns) {
		behind_ns = schedule->behind_ns + (__s64)(now_ns - schedule->now_ns);
		behind_ns -= (__s64)(bytes * 1000000000ULL / rate_Bps);
	}
	if (bytes)
		schedule->packet_us = min(min(bytes, (__u32)OFFLOAD_MAX) * 1000000ULL / rate_Bps, ~0U);
	packet_ns = max(schedule->packet_us, 1U) * 1000LL;
	depth_ns = max(2 * packet_ns, LATE_US * 1000LL);
	behind_ns = max(behind_ns, -depth_ns);
	behind_ns = min(behind_ns, all_sent ? 0 : depth_ns);
	schedule->behind_ns = behind_ns;
	schedule->now_ns = now_ns;
	schedule->sent_bytes = sent_bytes;
	schedule->written = tp->write_seq;
	if (behind_ns < -packet_ns)
		return rate_Bps * (__u64)packet_ns / (__u64)-behind_ns;
	if (behind_ns <= packet_ns)
		return rate_Bps;
	return min((__u64)behind_ns * rate_Bps / (__u64)packet_ns, CATCH_UP_MAX * rate_Bps);
}

#endif
