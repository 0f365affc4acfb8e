/* SPDX-License-Identifier: GPL-2.0 */
/* The cgroup a socket belongs to: that of the process that made it, or that listened for it, at that time. */
#ifndef HOWDAH_CGROUPS_H
#define HOWDAH_CGROUPS_H

#include "kernel.h"
#include "intf.h"

/* The id of the cgroup of `tp` at a level of the hierarchy, or 0 if it does not lie so deep. */
static __always_inline __u64 cgroup_at(struct tcp_sock *tp, __u32 level)
{
	struct cgroup *own = tp->inet_conn.icsk_inet.sk.sk_cgrp_data.cgroup, *ancestor = NULL;

	if (!own || (int)level > own->level)
		return 0;
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor), (void *)own->ancestors + level * sizeof(ancestor));
	return BPF_CORE_READ(ancestor, kn, id);
}

#endif
