/* SPDX-License-Identifier: GPL-2.0 */
/* A schedule: what is due by rate and time against what was sent. `schedule.rs` beside it is the reference model.
 *
 * The kernel spaces packets by a timer each. When that is late it takes at most half a packet's time off the next
 * wait (net/ipv4/tcp_output.c, tcp_update_skb_after_send), and whatever is more is lost for good. Packets are a
 * millisecond long, so a machine that is busy for some milliseconds now and then would lose much of the rate.
 *
 * So what is behind is made up for: n packets behind, n times as fast, CATCH_UP_MAX at most. It is a token bucket: in
 * any time t at most rate × t + depth leaves, and the depth is LATE_US, or two packets of segmentation offload where these
 * take longer. What is later than that is given up. Nothing is due while there is nothing to send: who has
 * sent all it had begins anew. n packets ahead, it sends an n-th as fast, so that it is on time with the next.
 */
#ifndef HOWDAH_SCHEDULE_H
#define HOWDAH_SCHEDULE_H

#include "kernel.h"

enum {
	LATE_US = 10000, /* how late timers and ACKs may be */
	CATCH_UP_MAX = 4,
	OFFLOAD_MAX = 1 << 16, /* bytes; no packet of segmentation offload is larger */
};

struct schedule {
	__u64 rate_Bps; /* on the wire */
	__u64 now_ns;	/* when the next packet may leave, as of the last look; 0: begins now */
	__s64 behind_ns;
	__u32 sent_bytes; /* on the wire, modulo 2^32 */
	__u32 packet_us;  /* the time of what left last */
	__u32 written;	  /* the sequence number behind all that was there to send */
};

static __always_inline void begin(struct schedule *schedule)
{
	schedule->now_ns = 0;
}

/* Gives so much of the schedule's time to others. */
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
