// SPDX-License-Identifier: GPL-2.0
// A tap on the wire below TLS: it flips one bit of the payload of one TCP segment, and mends the checksum.
// It runs at the sender's egress (tc-bpf(8)). A segment that the kernel has still to send again is a copy of
// its own, so that only what is on its way is changed.
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <asm/byteorder.h>

#ifndef PLACE
#error "PLACE: the byte of the payload, modulo its length, of which a bit is flipped"
#endif

// What libbpf's headers would say, which are not on every host.
#define SEC(name) __attribute__((section(name), used))
#define PIN_BY_NAME 1
static void *(*const lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const load)(const struct __sk_buff *skb, __u32 at, void *to, __u32 length) =
	(void *)BPF_FUNC_skb_load_bytes;
static long (*const store)(struct __sk_buff *skb, __u32 at, const void *from, __u32 length, __u64 flags) =
	(void *)BPF_FUNC_skb_store_bytes;
static long (*const mend)(struct __sk_buff *skb, __u32 at, __u64 from, __u64 to, __u64 flags) =
	(void *)BPF_FUNC_l4_csum_replace;

#define SSH_PORT 22
// Smaller ones may be greetings and acknowledgements of pieces, which have checksums of their own.
#define PAYLOAD_MIN 1000

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	__u32 *key;
	__u64 *value;
	int (*pinning)[PIN_BY_NAME];
} flipped SEC(".maps");

SEC("classifier")
int flip_one(struct __sk_buff *skb)
{
	__u32 zero = 0;
	struct iphdr ip;
	struct tcphdr tcp;
	__u64 *count = lookup(&flipped, &zero);

	if (!count || *count)
		return TC_ACT_OK;
	// The link's device has no header of its own before that of IP.
	if (load(skb, 0, &ip, sizeof(ip)) || ip.version != 4 || ip.protocol != IPPROTO_TCP)
		return TC_ACT_OK;
	__u32 transport = ip.ihl * 4;
	if (load(skb, transport, &tcp, sizeof(tcp)))
		return TC_ACT_OK;
	if (tcp.source == __constant_htons(SSH_PORT) || tcp.dest == __constant_htons(SSH_PORT))
		return TC_ACT_OK;
	__u32 payload = transport + tcp.doff * 4;
	if (skb->len < payload + PAYLOAD_MIN)
		return TC_ACT_OK;
	if (__sync_fetch_and_add(count, 1))
		return TC_ACT_OK;
	// The sum is of words of 16 bits from the header on, and the payload begins with one.
	__u32 at = payload + (PLACE % PAYLOAD_MIN & ~1U);
	__u16 old, new;
	if (load(skb, at, &old, sizeof(old)))
		return TC_ACT_OK;
	new = old ^ __constant_htons(1);
	store(skb, at, &new, sizeof(new), BPF_F_RECOMPUTE_CSUM);
	// Where the checksum is still to be made, at the device, this leaves it alone.
	mend(skb, transport + __builtin_offsetof(struct tcphdr, check), old, new, sizeof(new));
	return TC_ACT_OK;
}

char LICENSE[] SEC("license") = "GPL";
