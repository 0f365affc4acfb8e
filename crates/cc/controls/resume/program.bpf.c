// SPDX-License-Identifier: GPL-2.0
/* Careful Resume: a connection begins with what earlier ones carried, and then another control takes over.
 *
 * Source: RFC 9959. Sections are named where each rule is. Phases:
 *   reconnaissance  slow start until the first window is acknowledged and the RTT is like the saved one (3.2)
 *   unvalidated     the window jumps to a part of the saved capacity, paced over a round trip (3.3)
 *   validating      until all that was sent unvalidated is acknowledged, and the growth after a probe (3.4)
 *   retreat         after congestion: half of what was acknowledged, until the recovery is over (3.5)
 *   normal          the socket is given the control that the memory names (bpf_setsockopt)
 *
 * The observing phase is in user space, which sets memories (memory.h). All connections that use a memory are one sender:
 * each jumps to its part, and each retreats when one of them has to.
 *
 * Deviations, all to the safe side:
 * - The window counts segments, so PipeSize does.
 * - It does not jump if the RTT shows a standing queue on the path.
 * - Without an ACK, it jumps only if the RTT that confirms the path was measured in the last round trips. An older one
 *   does not count.
 * - Validating begins with a probe: the window grows by so little that it leaves in a train twice as dense as the jump.
 *   The queue that this train has built shows the capacity of the path. The window grows to that capacity in the next
 *   round trip, paced at that rate. It grows to this connection's part of the saved capacity at most, and not while the
 *   RTT shows that a queue has grown. PipeSize does not count this growth. Slow start ends there, also under the next
 *   control.
 * - A retreat ends when all that was sent before it is acknowledged, not only what was sent unvalidated. What was lost
 *   or sent meanwhile does not count in PipeSize.
 * - An undo does not end a retreat.
 *
 * With cong_control the kernel leaves window and pacing to the program. A callback that a kernel may skip (skipped.h) is
 * made up for at the next ACK. No phase depends on the result of ssthresh().
 */
#include "ahead.h"
#include "validate.h"

char LICENSE[] SEC("license") = "GPL";

SEC(".rodata.params")
const volatile struct {
	__u64 jump_part; /* parts per thousand of the saved capacity */
	__u64 retreat_beta; /* 1/1024 of PipeSize: where slow start ends after a retreat */
	__u64 again; /* microseconds until the parts of a jump are free again */
} parameters = {};

static __always_inline void begin(struct sock *sk, struct resume *resume)
{
	struct tcp_sock *tp = tcp_sk(sk);

	resume->seen_delivered = tp->delivered;
	resume->first = max(tp->snd_cwnd, (__u32)WINDOW_MIN);
	resume->window = resume->first;
	resume->confirmed = tp->delivered + resume->first;
	resume->phase = RESUME_RECONNAISSANCE;
	take_over(tp, resume);
	if (tp->snd_ssthresh < NO_THRESHOLD) {
		resume->phase = RESUME_NORMAL;
		resume->why = RESUME_CONGESTED;
	}
}

/* Gives the socket the next control. The private part then belongs to that control, and must not be read or written. */
static __always_inline void go_on(struct sock *sk, const struct resume *resume)
{
	char then[CONTROL_NAME_MAX], cubic[CONTROL_NAME_MAX] = "cubic", reno[CONTROL_NAME_MAX] = "reno";

	__builtin_memcpy(then, resume->then, sizeof(then));
	if (then[0] && !bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, then, sizeof(then)))
		return;
	if (bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, cubic, sizeof(cubic)))
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
}

/* Safe Retreat (3.5): the window falls to half of what the path has carried. The path cannot have carried more than was in
 * flight at once.
 */
static __always_inline void retreat(struct sock *sk, struct resume *resume, struct memory *memory)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 most = resume->phase == RESUME_VALIDATING ? resume->flight : tp->snd_cwnd;

	resume->pipe = min(resume->pipe, most);
	tp->snd_cwnd = share_of(resume->pipe, 1, 2);
	tp->snd_ssthresh = tp->snd_cwnd;
	resume->mark = tp->snd_nxt;
	resume->through = min(resume->pipe + tcp_packets_in_flight(tp), most);
	resume->lost = tp->lost;
	resume->phase = RESUME_RETREAT;
	if (memory)
		__sync_fetch_and_add(&memory->retreats, 1);
	note(sk, resume);
}

/* Copies what it needs from its memory. Returns whether there is a memory that may be used. */
static __always_inline bool recall(struct sock *sk, struct resume *resume)
{
	__u32 mss = max(tcp_sk(sk)->mss_cache, 1U);
	__u32 place;
	struct memory *memory = find_memory(sk, &place);

	if (!memory || bpf_ktime_get_boot_ns() >= memory->until_ns) {
		become_normal(sk, resume, RESUME_NO_MEMORY);
		return false;
	}
	resume->place = place;
	resume->memory_ns = memory->set_ns;
	resume->saved_rtt_us = memory->saved_rtt_us;
	resume->share = min(memory->saved_bytes / max(memory->streams, 1U) / mss, (__u64)NO_THRESHOLD);
	__builtin_memcpy(resume->then, memory->then, sizeof(resume->then));
	__sync_fetch_and_add(&memory->connections, 1);
	note(sk, resume);
	return true;
}

/* The reason why it will never jump (3.2, 4.2.1), if there is one. If it may jump, takes its part of the jump. */
static __always_inline __u8 why_not(const struct resume *resume, struct memory *memory, __u32 window)
{
	if (!is_same_path(resume))
		return RESUME_OTHER_PATH;
	if (resume->least_rtt_us > resume->saved_rtt_us + rise_us(resume->saved_rtt_us, STANDING_SHIFT))
		return RESUME_QUEUE;
	if (!memory)
		return RESUME_NO_MEMORY;
	if (memory->retreats)
		return RESUME_VOID;
	if (resume->jump <= window)
		return RESUME_SMALL;
	return take_part(memory, parameters.again) ? RESUME_NOT_YET : RESUME_NO_PART;
}

/* Enters the unvalidated phase (3.3). */
static __always_inline void jump(struct sock *sk, struct resume *resume)
{
	struct memory *memory = memory_at(sk, resume->place, resume->memory_ns);
	__u64 part = memory && memory->part ? memory->part : parameters.jump_part;
	struct tcp_sock *tp = tcp_sk(sk);
	__u8 why;

	resume->jump = min((__u32)(resume->share * part / 1000), tp->snd_cwnd_clamp);
	why = why_not(resume, memory, tp->snd_cwnd);
	if (!memory || why) {
		resume->jump = 0;
		become_normal(sk, resume, why);
		return;
	}
	__sync_fetch_and_add(&memory->jumps, 1);
	__sync_fetch_and_add(&memory->jumped_bytes, (__u64)resume->jump * tp->mss_cache);
	resume->pipe = tcp_packets_in_flight(tp);
	resume->mark = tp->snd_nxt;
	resume->jumped_us = now_us(tp);
	resume->phase = RESUME_UNVALIDATED;
	tp->snd_cwnd = resume->jump;
	note(sk, resume);
}

static __always_inline void reconnoitre(struct sock *sk, struct resume *resume, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_is_cwnd_limited(sk))
		tcp_slow_start(tp, acked);
	if (!resume->memory_ns && !recall(sk, resume))
		return;
	if (is_confirmed(tp, resume) && is_limited_by_window(sk))
		jump(sk, resume);
}

/* Keeps the part of the jump that is in flight or, if the jump was not used, what the path has carried (3.3). */
static __always_inline void end_jump(struct sock *sk, struct resume *resume)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 in_flight = tcp_packets_in_flight(tp), most;

	if (in_flight < resume->first || in_flight <= resume->pipe) {
		tp->snd_cwnd = max(resume->pipe, resume->first);
		become_normal(sk, resume, RESUME_UNUSED);
		return;
	}
	tp->snd_cwnd = in_flight;
	resume->flight = in_flight;
	resume->mark = tp->snd_nxt;
	resume->probe_from = tp->snd_una + ((tp->snd_nxt - tp->snd_una) >> BEFORE_PROBE_SHIFT);
	most = min(resume->share, tp->snd_cwnd_clamp);
	resume->probe = min(probe_segments(resume), most > in_flight ? most - in_flight : 0);
	resume->phase = RESUME_VALIDATING;
	note(sk, resume);
}

static __always_inline void send_unvalidated(struct sock *sk, struct resume *resume)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool is_over = now_us(tp) - resume->jumped_us > jump_lasts_us(tp, resume);

	if (is_past(tp, resume->mark + 1) || is_over || tcp_packets_in_flight(tp) >= tp->snd_cwnd)
		end_jump(sk, resume);
}

/* PipeSize is what is acknowledged of the jump, not of what is sent after it. */
static __always_inline void count(struct resume *resume, __u32 acked)
{
	if (resume->coming == COMING_JUMP)
		resume->pipe += acked;
}

/* One sender: all connections that share the jump retreat when the first one has to. */
static __always_inline void follow_the_jump(struct sock *sk, struct resume *resume, __u32 acked)
{
	struct memory *memory = memory_at(sk, resume->place, resume->memory_ns);
	__u8 state = ca_state(sk);

	count(resume, acked);
	if (state == TCP_CA_Recovery || state == TCP_CA_CWR || (memory && memory->retreats) || !is_same_path(resume))
		retreat(sk, resume, memory);
	else if (resume->phase == RESUME_UNVALIDATED)
		send_unvalidated(sk, resume);
	else
		validate(sk, resume, acked);
}

/* Until the recovery is over. What was lost or sent since does not show what the path carries. */
static __always_inline void mend(struct sock *sk, struct resume *resume, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 lost = tp->lost - resume->lost;
	__u8 state = ca_state(sk);

	count(resume, acked);
	if (!is_past(tp, resume->mark) || state == TCP_CA_Recovery || state == TCP_CA_CWR)
		return;
	resume->pipe = min(resume->pipe, resume->through > lost ? resume->through - lost : 0);
	tp->snd_ssthresh = share_of(resume->pipe, parameters.retreat_beta, 1024);
	become_normal(sk, resume, RESUME_RETREATED);
}

/* Congestion before the jump: it does not jump (3.2). The next control reduces the window to the threshold. */
static __always_inline void give_up(struct sock *sk, struct resume *resume)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_ssthresh = share_of(resume->window, CUBIC_BETA, 1024);
	become_normal(sk, resume, RESUME_CONGESTED);
}

/* A timeout ends it in any phase; the kernel has cut the window already (3.6). */
static __always_inline void time_out(struct sock *sk, struct resume *resume)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (has_jumped(resume)) {
		tp->snd_ssthresh = share_of(resume->pipe, 1, 2);
		become_normal(sk, resume, RESUME_TIMED_OUT);
	} else {
		give_up(sk, resume);
	}
}

static __always_inline void step(struct sock *sk, struct resume *resume, __u32 acked)
{
	__u8 state = ca_state(sk);

	if (state == TCP_CA_Loss)
		time_out(sk, resume);
	else if (resume->phase == RESUME_RETREAT)
		mend(sk, resume, acked);
	else if (has_jumped(resume))
		follow_the_jump(sk, resume, acked);
	else if (state == TCP_CA_Recovery || state == TCP_CA_CWR)
		give_up(sk, resume);
	else
		reconnoitre(sk, resume, acked);
}

SEC("struct_ops")
void BPF_PROG(resume_init, struct sock *sk)
{
	struct resume *resume = private_of(sk);

	__builtin_memset(resume, 0, sizeof(*resume));
	begin(sk, resume);
}

SEC("struct_ops")
void BPF_PROG(resume_cong_control, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = private_of(sk);
	__u32 acked;

	/* The ACK that ends the handshake comes before init. */
	if (sk->__sk_common.skc_state == TCP_SYN_SENT || sk->__sk_common.skc_state == TCP_SYN_RECV)
		return;
	if (resume->phase == RESUME_NONE)
		begin(sk, resume);
	acked = tp->delivered - resume->seen_delivered;
	resume->seen_delivered = tp->delivered;
	if (resume->phase != RESUME_NORMAL)
		step(sk, resume, acked);
	resume->window = tp->snd_cwnd;
	/* The jump and the growth to the capacity are paced over a round trip (3.3). The rest is paced as in Linux, at 200 % in
	 * slow start.
	 */
	if (resume->phase == RESUME_VALIDATING && resume->coming == COMING_GROWTH)
		pace(sk, resume, resume->limit, 100);
	else
		pace(sk, resume, tp->snd_cwnd,
		     resume->phase == RESUME_UNVALIDATED ? 100 : resume->phase == RESUME_RETREAT ? 120 : 200);
	if (resume->phase == RESUME_NORMAL)
		go_on(sk, resume);
}

/* Switches pacing off for the next control, if this one has switched it on. */
SEC("struct_ops")
void BPF_PROG(resume_release, struct sock *sk)
{
	struct resume *resume = private_of(sk);

	if (resume->paced && sk->sk_pacing_status == SK_PACING_NEEDED && sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
}

SEC("struct_ops")
void BPF_PROG(resume_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct resume *resume = private_of(sk);

	if (sample->rtt_us <= 0)
		return;
	if (resume->phase == RESUME_RECONNAISSANCE && !is_recent(tp, resume))
		resume->least_rtt_us = 0;
	resume->rtt_us = sample->rtt_us;
	resume->measured_ms = now_ms(tp);
	if (!resume->least_rtt_us || resume->rtt_us < resume->least_rtt_us)
		resume->least_rtt_us = resume->rtt_us;
}

/* Called before anything is sent; the kernel reads the window after it. A sender that had nothing to send when its first
 * window was acknowledged jumps here, as soon as it has written more than the window permits.
 */
SEC("struct_ops")
__u32 BPF_PROG(resume_min_tso_segs, struct sock *sk)
{
	struct resume *resume = private_of(sk);

	if (resume->phase != RESUME_RECONNAISSANCE || !may_jump_unasked(sk, resume))
		return MIN_TSO_SEGS;
	if (resume->memory_ns || recall(sk, resume)) {
		jump(sk, resume);
		if (resume->phase == RESUME_UNVALIDATED)
			pace(sk, resume, tcp_sk(sk)->snd_cwnd, 100);
	}
	return MIN_TSO_SEGS;
}

/* A sender that was idle has not used its jump. But nothing is in flight before the jump either if one ACK has acknowledged
 * everything, or if the jump came without an ACK. In these cases the event comes with the first segment of the jump.
 */
SEC("struct_ops")
void BPF_PROG(resume_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct resume *resume = private_of(sk);

	if (event == CA_EVENT_TX_START && resume->phase == RESUME_UNVALIDATED && tcp_sk(sk)->snd_nxt != resume->mark)
		end_jump(sk, resume);
}

SEC("struct_ops")
__u32 BPF_PROG(resume_ssthresh, struct sock *sk)
{
	const struct resume *resume = private_of(sk);

	if (has_jumped(resume))
		return share_of(resume->pipe, 1, 2);
	return share_of(tcp_sk(sk)->snd_cwnd, CUBIC_BETA, 1024);
}

SEC("struct_ops")
__u32 BPF_PROG(resume_undo_cwnd, struct sock *sk)
{
	const struct resume *resume = private_of(sk);

	return resume->phase == RESUME_RETREAT ? tcp_sk(sk)->snd_cwnd : tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops control = {
	.init = (void *)resume_init,
	.release = (void *)resume_release,
	.ssthresh = (void *)resume_ssthresh,
	.cong_control = (void *)resume_cong_control,
	.pkts_acked = (void *)resume_pkts_acked,
	.min_tso_segs = (void *)resume_min_tso_segs,
	.cwnd_event = (void *)resume_cwnd_event,
	.undo_cwnd = (void *)resume_undo_cwnd,
	.name = "hd_resume",
};
