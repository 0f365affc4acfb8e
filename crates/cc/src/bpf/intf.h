/* SPDX-License-Identifier: GPL-2.0 */
/* Values that programs and user space share through maps; their twins in Rust are in src/layout.rs.
 * A change that a loaded program would misread is a new ABI there.
 */
#ifndef HOWDAH_INTF_H
#define HOWDAH_INTF_H

/* The target of hd_hold: one of the three, the others are 0. All 0: no target. */
struct target {
	__u64 rate_bps; /* bits per second on the wire */
	__u32 window;   /* packets */
	__u32 share;    /* its number, from 1 */
};

enum { SHARES_MAX = 4096, SHARE_NAME_MAX = 64 };

/* What the connections of a share may send together; written by user space. */
struct share {
	struct bpf_spin_lock lock;
	__u32 unused;
	__u64 rate_bps; /* until the lease expires */
	__u64 minimum_bps; /* from then on; 0: each as an ordinary control */
	__u64 until_ns; /* CLOCK_BOOTTIME */
	char owner[SHARE_NAME_MAX];
	char name[SHARE_NAME_MAX]; /* none: no share */
};

/* What they send; written by hd_hold. Active connections are counted again in each epoch. */
struct use {
	struct bpf_spin_lock lock;
	__u32 connections;
	__u32 epoch;
	__u32 active; /* of them, those that wait for their turn, counted in this epoch */
	__u32 active_before; /* counted in the last epoch, and not in this one yet */
	__u32 unused;
	__u64 epoch_began_ns; /* CLOCK_BOOTTIME */
	__u64 epoch_lasts_ns;
	__u64 sent_bytes; /* on the wire */
	__u64 acked_bytes; /* of payload */
	__u64 beside_bytes; /* on the wire, by those that were not active */
};

enum hold_state {
	HOLD_IDLE,     /* no target: an ordinary control */
	HOLD_HELD,     /* the window is what the target says */
	HOLD_FALLBACK, /* the guard has acted: an ordinary control until the loss is over */
};

enum { CONTROL_NAME_MAX = 16 };

/* The phases of RFC 9959, for hd_resume. The observing phase is in user space, which sets memories. */
enum resume_phase {
	RESUME_NONE, /* it has never had hd_resume */
	RESUME_RECONNAISSANCE,
	RESUME_UNVALIDATED,
	RESUME_VALIDATING,
	RESUME_RETREAT,
	RESUME_NORMAL, /* another control has taken over */
};

/* Why the phase is normal. */
enum resume_why {
	RESUME_NOT_YET,
	RESUME_NO_MEMORY,  /* none, or it has expired */
	RESUME_VOID,	   /* a connection that used it had to retreat */
	RESUME_NO_PART,	   /* others have taken all parts of the jump */
	RESUME_OTHER_PATH, /* the RTT is unlike the saved one */
	RESUME_QUEUE,	   /* the RTT shows a standing queue */
	RESUME_SMALL,	   /* the window was as large without a jump */
	RESUME_CONGESTED,  /* before the jump */
	RESUME_UNUSED,	   /* the sender had too little data to use the jump */
	RESUME_VALIDATED,
	RESUME_RETREATED,
	RESUME_TIMED_OUT, /* after the jump */
};

/* The result of a connection under hd_resume. It is kept when another control takes over. */
struct resumed {
	__u64 memory_ns; /* when the memory it found was set; 0: it found none */
	__u64 jumped_bytes; /* the window that it jumped to */
	__u64 validated_bytes; /* RFC 9959's PipeSize */
	__u32 phase; /* enum resume_phase */
	__u32 why; /* enum resume_why */
	__u32 retreats;
	__u32 rtt_us; /* the RTT that was compared with the saved one */
};

/* One for each connection (sk_storage). */
struct flow {
	/* For hd_hold: its own target, which has priority over the default, and its counts. */
	struct target target;
	__u64 rounds; /* round trips seen */
	__u64 rounds_held;
	__u32 falls;   /* times the guard acted */
	__u32 returns; /* times it returned to the target */
	__u32 state;   /* enum hold_state */
	__u32 window;  /* the target in packets now */
	__u32 base_rtt_us;
	__u32 loss_ppm; /* of the last round trip with enough packets to measure it */
	/* For attach: the rule that chose, counted from 1, and the control there was before. */
	__u32 rule;
	__u32 unused;
	char before[CONTROL_NAME_MAX];
	struct resumed resumed;
};

/* The levels of a hierarchy that are read. */
enum { CGROUPS_MAX = 32 };

/* What the iterator reports of a connection or listener. */
struct connection {
	__u64 cookie;
	__u32 family;     /* AF_INET, AF_INET6 */
	__u32 state;      /* as in net/tcp_states.h */
	__u8 local[16];   /* IPv4: the first four bytes */
	__u8 remote[16];
	__u16 local_port; /* host order, both */
	__u16 remote_port;
	__u32 window;     /* packets */
	__u32 srtt_us;
	__u32 known;      /* 1: `flow` is there */
	char control[CONTROL_NAME_MAX];
	struct flow flow;
	__u64 cgroups[CGROUPS_MAX]; /* ids from the root down, then 0 */
};

enum order_flags {
	ORDER_MOVE = 1,     /* to the control `to` */
	ORDER_TARGET = 2,   /* take `target` */
	ORDER_REMEMBER = 4, /* note `rule`, and of the first rule the control before */
	ORDER_FORGET = 8,   /* the rule has ended */
};

/* What to do with the connection of a cookie, if it is still on the control `from`. */
struct order {
	char from[CONTROL_NAME_MAX];
	char to[CONTROL_NAME_MAX];
	struct target target;
	__u32 flags;
	__u32 rule;
	__s32 result; /* 0 once done, or a negative error; ORDER_PENDING before */
	__u32 unused;
};

enum { ORDER_PENDING = 1 };

/* Rules of attach: connections of a cgroup or to a prefix, with a port in a range at either end. */
enum { RULES_MAX = 2048, RANGES_MAX = 32, CGROUP_PATH_MAX = 256 };

struct prefix {
	__u32 bits; /* of what follows; those of namespace and cgroup are always there */
	__u64 namespace; /* the network namespace's cookie; 0: every one */
	__u64 cgroup; /* its id; 0: every one */
	__u32 family; /* 4 or 6; neither it nor an address: all */
	__u32 address[4]; /* network order; IPv4: the first */
} __attribute__((packed, aligned(4)));

/* What earlier transfers to a destination carried, for hd_resume, and the results. */
enum { MEMORIES_MAX = 4096 };

struct destination {
	__u32 bits; /* of what follows; those of namespace, port and family are always there */
	__u64 namespace; /* as in a prefix */
	__u64 port; /* of one end, host order; 0: every one */
	__u64 family; /* 64 bits, so that the value behind the key is aligned for atomic steps */
	__u32 address[4];
} __attribute__((packed, aligned(4)));

struct memory {
	/* Written by user space, all at once. */
	__u64 set_ns; /* CLOCK_BOOTTIME; no other memory of the destination has the same */
	__u64 until_ns;
	__u64 saved_bytes; /* in flight, of all streams together */
	__u64 saved_rtt_us;
	__u64 namespace; /* the inode, as people know it; 0: every one */
	char then[CONTROL_NAME_MAX]; /* the control that takes over */
	struct destination destination;
	__u32 streams; /* that share it */
	__u32 part; /* the part of it that the streams together jump to, of 1,000; 0: the parameter */
	/* Written by hd_resume, each by an atomic step. */
	__u32 connections; /* that found it */
	__u32 jumps;
	__u32 validated; /* of these */
	__u32 retreats; /* of these */
	__u32 other_paths; /* connections whose RTT was unlike the saved one */
	__u64 parts; /* when the first part of the jump was taken, ms, in the upper half; how many are, in the lower */
	__u64 jumped_bytes;
	__u64 validated_bytes;
};

struct range {
	__u16 least;
	__u16 most;
	__u32 rule;
};

struct ranges {
	__u32 count;
	struct range of[RANGES_MAX];
};

struct rule {
	char control[CONTROL_NAME_MAX];
	struct target target;
	__u64 chosen;  /* connections */
	__u64 refused; /* connections to which the kernel refused the control */
	struct prefix prefix;
	__u64 namespace; /* the inode, as people know it; 0: every one */
	__u16 least;
	__u16 most;
	__u32 used; /* 1: in force */
	char cgroup[CGROUP_PATH_MAX]; /* the path, as people know it; none: every one */
};

#endif
