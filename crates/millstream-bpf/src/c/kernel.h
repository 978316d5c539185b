/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The types and functions of the kernel that the qdisc uses.
 *
 * libbpf finds each field by its name in the running kernel, so a type has only the fields that
 * are used, in any order. The compiled object thus does not depend on the headers of a kernel.
 */
#ifndef MILLSTREAM_KERNEL_H
#define MILLSTREAM_KERNEL_H

#include <linux/bpf.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;

#define BY_NAME __attribute__((preserve_access_index))

struct nlattr;
struct netlink_ext_ack;

struct kernfs_node {
	u64 id;
} BY_NAME;

struct cgroup {
	int level;
	struct kernfs_node *kn;
	/* By level, itself included. */
	struct cgroup *ancestors[];
} BY_NAME;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} BY_NAME;

struct sock_common {
	unsigned char skc_state;
} BY_NAME;

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
} BY_NAME;

struct sk_buff {
	struct sock *sk;
	unsigned char *head, *data;
	unsigned int len;
	u32 mark;
	u16 network_header;
	__be16 protocol;
	char cb[48];
} BY_NAME;

/* Complete, as libbpf compares the parameters of functions. */
struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};

struct qdisc_skb_cb {
	unsigned int pkt_len;
} BY_NAME;

struct qdisc_skb_head {
	u32 qlen;
} BY_NAME;

struct gnet_stats_queue {
	u32 backlog, drops;
} BY_NAME;

struct Qdisc {
	u32 limit;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
} BY_NAME;

/* User space writes `id` at its offset here. */
struct Qdisc_ops {
	char id[16];
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
};

int bpf_dynptr_from_skb(struct __sk_buff *skb, u64 flags, struct bpf_dynptr *packet) __ksym;
void *bpf_dynptr_slice(const struct bpf_dynptr *packet, u64 at, void *buffer, u64 bytes) __ksym;
u32 bpf_skb_get_hash(struct sk_buff *skb) __ksym;
void bpf_kfree_skb(struct sk_buff *skb) __ksym;
void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __ksym;
void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire_ns, u64 slack_ns) __ksym;
void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __ksym;

#endif
