/* SPDX-License-Identifier: GPL-2.0 */
/* The state of a connection, and what all phases use: pacing, notes for user space, and the last step. */
#ifndef HOWDAH_CONNECTION_H
#define HOWDAH_CONNECTION_H

#include "memory.h"

enum {
	WINDOW_MIN = 2,
	FIRST_WINDOW = 10, /* RFC 6928 */
	NO_THRESHOLD = 0x7fffffff, /* TCP_INFINITE_SSTHRESH */
	CUBIC_BETA = 717, /* 1/1024 */
	STANDING_SHIFT = 3, /* an RTT that is an eighth longer shows a standing queue, as in HyStart */
	GROWN_SHIFT = 5, /* one that is a thirty-second longer shows a queue from the jump */
	LEAST_RISE_US = 2000, /* limits of both */
	LARGEST_RISE_US = 16000,
};

/* What is being acknowledged while a connection validates. */
enum coming {
	COMING_JUMP, /* the part of the jump that was in flight; within it, the probe is sent */
	COMING_PROBE, /* the end of the probe */
	COMING_GROWTH, /* a flight that was sent after the capacity was known */
};

struct resume {
	__u64 memory_ns; /* when its memory was set; 0: not looked for yet */
	char then[CONTROL_NAME_MAX];
	__u32 saved_rtt_us;
	__u32 share; /* its part of the saved capacity, segments */
	__u32 jump; /* segments */
	__u32 pipe; /* RFC 9959's PipeSize, segments */
	__u32 seen_delivered; /* at the last ACK */
	__u32 confirmed; /* `delivered` once the first window is acknowledged */
	__u32 first; /* window */
	__u32 window; /* at the last ACK */
	__u32 rtt_us; /* the newest sample; 0: none */
	__u32 measured_ms; /* when it was taken */
	__u32 least_rtt_us;
	__u32 jumped_us; /* when */
	__u32 mark; /* the phase ends when this sequence number is acknowledged */
	__u32 flight; /* the part of the jump in flight when validating began, segments */
	__u32 probe_from; /* the probe may begin when this sequence number is acknowledged */
	__u32 probe; /* growth of the window for it that is left, segments */
	union {
		__u32 probe_end; /* its last sequence number; 0: none of it was sent */
		__u32 limit; /* then: the capacity of the path, up to which validating grows the window, segments */
		__u32 through; /* the segments that will be delivered by the end of a retreat, if nothing more is lost */
	};
	union {
		__u32 waited_us; /* how long the end of the probe waited in a queue, plus 1; 0: not known */
		__u32 lost; /* when a retreat began, segments */
	};
	__u8 phase; /* enum resume_phase; RESUME_NONE: begins */
	__u8 why; /* enum resume_why */
	__u8 place; /* of its memory */
	__u8 paced; /* we switched pacing on */
	__u8 coming; /* enum coming */
};

_Static_assert(sizeof(struct resume) <= 13 * sizeof(__u64), "fits a socket's private part");

static __always_inline __u32 share_of(__u32 window, __u64 part, __u64 of)
{
	return max((__u32)(window * part / of), (__u32)WINDOW_MIN);
}

/* In one of the phases between the jump and the next control. */
static __always_inline bool has_jumped(const struct resume *resume)
{
	return resume->phase > RESUME_RECONNAISSANCE && resume->phase < RESUME_NORMAL;
}

/* One round trip. The smoothed RTT begins with that of the handshake, which may be old. So it is limited by what was
 * measured since.
 */
static __always_inline __u32 jump_lasts_us(const struct tcp_sock *tp, const struct resume *resume)
{
	return max(min(tp->srtt_us >> 3, resume->rtt_us), resume->least_rtt_us);
}

static __always_inline void pace(struct sock *sk, struct resume *resume, __u32 segments, __u32 percent)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 over_us = resume->phase == RESUME_UNVALIDATED ? jump_lasts_us(tp, resume) : tp->srtt_us >> 3;
	__u64 rtt_us = max(over_us, 1U);
	__u64 rate_Bps = (__u64)segments * tp->mss_cache * 10000 * percent / rtt_us;

	if (has_jumped(resume) && sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
		resume->paced = 1;
	}
	sk->sk_pacing_rate = max(min(rate_Bps, (__u64)sk->sk_max_pacing_rate), 1ULL);
}

/* Whether the RTT says that this is the path of the memory (4.2.1). */
static __always_inline bool is_same_path(const struct resume *resume)
{
	return resume->least_rtt_us > resume->saved_rtt_us / 2 &&
	       resume->rtt_us <= 10ULL * resume->saved_rtt_us;
}

static __always_inline __u32 rise_us(__u32 rtt_us, __u32 shift)
{
	return min(max(rtt_us >> shift, (__u32)LEAST_RISE_US), (__u32)LARGEST_RISE_US);
}

static __always_inline void note(struct sock *sk, const struct resume *resume)
{
	struct flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	__u64 mss = tcp_sk(sk)->mss_cache;

	if (!flow)
		return;
	flow->resumed.memory_ns = resume->memory_ns;
	flow->resumed.phase = resume->phase;
	flow->resumed.why = resume->why;
	flow->resumed.jumped_bytes = resume->jump * mss;
	flow->resumed.validated_bytes = resume->pipe * mss;
	flow->resumed.rtt_us = resume->least_rtt_us;
	if (resume->phase == RESUME_RETREAT)
		flow->resumed.retreats++;
}

/* The last step in every case. The next control does the rest. */
static __always_inline void become_normal(struct sock *sk, struct resume *resume, __u8 why)
{
	struct memory *memory = memory_at(sk, resume->place, resume->memory_ns);
	__u64 mss = tcp_sk(sk)->mss_cache;

	resume->phase = RESUME_NORMAL;
	resume->why = why;
	if (memory) {
		__sync_fetch_and_add(&memory->validated_bytes, resume->pipe * mss);
		if (why == RESUME_VALIDATED)
			__sync_fetch_and_add(&memory->validated, 1);
		if (why == RESUME_OTHER_PATH)
			__sync_fetch_and_add(&memory->other_paths, 1);
	}
	note(sk, resume);
}

/* What the window permits beside what is in flight, bytes. */
static __always_inline __u32 room_of(const struct tcp_sock *tp)
{
	__u32 in_flight = tcp_packets_in_flight(tp);

	return tp->snd_cwnd > in_flight ? (tp->snd_cwnd - in_flight) * tp->mss_cache : 0;
}

/* Whether the sender has more to send than the window permits. */
static __always_inline bool is_limited_by_window(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tcp_is_cwnd_limited(sk) && tp->write_seq - tp->snd_nxt > room_of(tp);
}

/* Whether the first window is acknowledged, and an RTT was measured. */
static __always_inline bool is_confirmed(const struct tcp_sock *tp, const struct resume *resume)
{
	return resume->rtt_us && (__s32)(tp->delivered - resume->confirmed) >= 0;
}

static __always_inline bool is_past(const struct tcp_sock *tp, __u32 mark)
{
	return (__s32)(tp->snd_una - mark) >= 0;
}

#endif
