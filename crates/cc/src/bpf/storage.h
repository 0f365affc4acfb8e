/* SPDX-License-Identifier: GPL-2.0 */
/* The map that all of our programs share: what we know of a connection, as long as it lives. */
#ifndef HOWDAH_STORAGE_H
#define HOWDAH_STORAGE_H

#include "kernel.h"
#include "intf.h"

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flow);
} flows SEC(".maps");

#endif
