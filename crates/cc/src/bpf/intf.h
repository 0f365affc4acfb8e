/* SPDX-License-Identifier: GPL-2.0 */
/* Values that programs and user space share through maps; their twins in Rust are in src/layout.rs.
 * Any change here is a new ABI there.
 */
#ifndef HOWDAH_INTF_H
#define HOWDAH_INTF_H

/* What hd_hold shall hold: one of the two, the other 0; both 0: nothing. */
struct target {
	__u64 rate_bps; /* bits per second on the wire */
	__u32 window;   /* packets */
	__u32 unused;
};

enum hold_state {
	HOLD_IDLE,     /* no target: an ordinary control */
	HOLD_HELD,     /* the window is what the target says */
	HOLD_FALLBACK, /* the guard has struck: an ordinary control until the path is back */
};

/* One for each connection (sk_storage): its own target, and what has happened to it. */
struct flow {
	struct target target; /* wins over the default */
	__u64 rounds;         /* round trips seen */
	__u64 rounds_held;
	__u32 falls;   /* times the guard struck */
	__u32 returns; /* times the path came back */
	__u32 state;   /* enum hold_state */
	__u32 window;  /* packets the target comes to now */
	__u32 base_rtt_us;
	__u32 loss_ppm; /* of the last round trip with enough packets to tell */
};

#endif
