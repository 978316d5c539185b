// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The scheduler as a qdisc: packets, classification, shaping and statistics around scheduler.h.
 *
 * One loaded object serves one qdisc: its queues and state are global. User space fills ms_configs
 * and ms_rules before the qdisc is added. The kernel calls all operations under the qdisc's lock.
 *
 * Time starts at 0 when the qdisc is added, as in the simulation.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

/* The verifier checks each global function once, and static functions again in each caller. */
int scheduler_reach(u64 now_ns);
int scheduler_advance(u64 now_ns);
#define MS_CLOCK_REACH(s, now_ns) scheduler_reach(now_ns)
#define MS_ADVANCE(s, now_ns) scheduler_advance(now_ns)
#include "scheduler.h"

/* Reads a big-endian number of a packet, for filters: MS_SIZE() of 0x10, 0x08 and 0x00. */
static __always_inline int ms_read(void *packet, u64 at, u32 size, u32 *value)
{
	u8 buffer[4], *bytes;

	if (at > 0xffff)
		return 0;
	if (size == 0x10) {
		bytes = bpf_dynptr_slice(packet, at, buffer, 1);
		if (!bytes)
			return 0;
		*value = bytes[0];
	} else if (size == 0x08) {
		bytes = bpf_dynptr_slice(packet, at, buffer, 2);
		if (!bytes)
			return 0;
		*value = bytes[0] << 8 | bytes[1];
	} else {
		bytes = bpf_dynptr_slice(packet, at, buffer, 4);
		if (!bytes)
			return 0;
		*value = (u32)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
	}
	return 1;
}

#include "filter.h"

/* The kernel accepts functions of qdiscs only from programs that declare the GPL. */
char _license[] SEC("license") = "Dual MIT/GPL";

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define NET_XMIT_DROP 1
#define NET_XMIT_CN 2
#define EBUSY 16
#define TCP_TIME_WAIT 6
#define TCP_NEW_SYN_RECV 12

/* The maximum number of waiting packets. */
#define LIMIT 16384
#define RULES 64
#define LOG_ENTRIES 16384
#define NAME_BYTES 64
/* The greatest lateness of a timer that the link catches up, ns. */
#define CATCH_UP_NS 1000000

/* A packet of a queue, or a free one. Its number is its index plus 1; 0 stands for none. */
struct packet {
	struct sk_buff __kptr *skb;
	u64 arrival_ns;
	u32 bytes;
	/* The number of the next one of the list. */
	u32 next;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LIMIT);
	__type(key, u32);
	__type(value, struct packet);
} ms_packets SEC(".maps");

/* The queues of the streams, then those of the flows. */
#define QUEUES (MS_STREAMS + MS_FLOWS)

/* The numbers of the first and the last packet; 0 for none. */
struct queue {
	u32 first, last;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, QUEUES);
	__type(key, u32);
	__type(value, struct queue);
} ms_queues SEC(".maps");

/* A match: every given field must agree. Zero masks and zero port ranges match all packets. */
struct ms_rule {
	u32 mark, mark_mask;
	/* A bit for each code point; 0 for all. */
	u64 dscp;
	/* The number and level of the sender's cgroup, or of one above it; 0 for all. */
	u64 cgroup;
	u32 cgroup_level;
	/* The first instruction of the filter, plus 1; 0 without one. */
	u32 filter;
	/* IPv4 addresses are mapped to IPv6 (::ffff:0:0/96). */
	u32 source[4], source_mask[4];
	u32 destination[4], destination_mask[4];
	u16 source_port, source_port_last;
	u16 destination_port, destination_port_last;
	/* 0 for all. */
	u32 protocol;
	u32 stream;
};

struct ms_rules {
	u32 count;
	/* The stream of packets without a match. */
	u32 others;
	u32 has_cgroups, used;
	struct ms_rule rules[RULES];
	/* The programs of the filters, one behind the other. */
	struct ms_instruction instructions[MS_INSTRUCTIONS];
};

/*
 * Drops of late packets and by queue management precede their decision. Drops at the limits of
 * flows follow their arrival, and the hash of its flow precedes it, in place of a length.
 */
enum {
	EVENT_ARRIVED,
	EVENT_FULL,
	EVENT_SENT,
	EVENT_LATE,
	EVENT_IDLE,
	EVENT_HASH,
	EVENT_OVERFLOW,
	EVENT_AQM,
};

struct ms_log {
	u64 count;
	struct {
		u64 time_ns;
		u32 bytes;
		u16 stream, event;
	} entries[LOG_ENTRIES];
};

/* The head of the list of free packets, and the highest number used so far. */
struct ms_pool {
	u32 free, highest;
};

struct ms_link {
	/* The time at which the kernel added the qdisc, ns. */
	u64 began_ns;
	/* The end of the current transmission, ns. */
	u64 free_ns;
	/* The qdisc that uses the state; 0 without one. */
	u64 owner;
	u32 busy;
	/* The configuration in use, an index into ms_configs. */
	u32 applied;
	/* When the timer is due, 0 without one; the longest time by which it was late, ns. */
	u64 due_ns;
	u64 timer_late_ns;
	/* Packets by stream and floor(log2(sojourn time in ns)); sums and maxima of their times. */
	u64 sojourn[MS_STREAMS][40];
	u64 sojourn_ns[MS_STREAMS];
	u64 longest_ns[MS_STREAMS];
};

/*
 * Two configurations; ms_current tells which is in use. To change contracts, user space writes the
 * other one, then ms_current. The next operation continues under it.
 */
struct ms_config ms_configs[2] SEC(".bss.config");
u32 ms_current SEC(".bss.current");
struct ms_rules ms_rules SEC(".bss.rules");
/* The state of the filter that runs; the kernel holds the qdisc's lock. */
struct ms_filter_state ms_filter_state SEC(".bss.filter");
struct ms_state ms_state SEC(".bss.state");
struct ms_flows ms_flows SEC(".bss.flows");
struct ms_link ms_link SEC(".bss.link");
struct ms_log ms_log SEC(".bss.log");
struct ms_pool ms_pool SEC(".bss.pool");
/* The streams' names, for programs that read the counters; ended by zeros. */
char ms_names[MS_STREAMS][NAME_BYTES] SEC(".bss.names");
/* Bounds on the streams' delays, ns; 0 if unknown. The qdisc does not read them. */
u64 ms_bounds[MS_STREAMS] SEC(".bss.bounds");

static __always_inline struct ms_config *configuration(void)
{
	return &ms_configs[ms_link.applied & 1];
}

__noinline int log_event(u64 now_ns, u32 stream, u32 bytes, u32 event)
{
	u64 at = ms_log.count;

	if (!configuration()->logs || at >= LOG_ENTRIES)
		return 0;
	at &= LOG_ENTRIES - 1;
	ms_log.entries[at].time_ns = now_ns;
	ms_log.entries[at].bytes = bytes;
	ms_log.entries[at].stream = stream;
	ms_log.entries[at].event = event;
	ms_log.count++;
	return 0;
}

/* The scheduler's operations. */

#define SCHEDULER(s) struct ms_scheduler s = { configuration(), &ms_state, &ms_flows }

__noinline int scheduler_reach(u64 now_ns)
{
	SCHEDULER(s);

	ms_clock_reach(&s, now_ns);
	return 0;
}

__noinline int scheduler_advance(u64 now_ns)
{
	SCHEDULER(s);

	ms_advance(&s, now_ns);
	return 0;
}

__noinline int scheduler_arrive(u64 now_ns, u32 stream, u32 bytes)
{
	SCHEDULER(s);

	return ms_arrive(&s, now_ns, stream, bytes);
}

__noinline int scheduler_begin(u64 now_ns)
{
	SCHEDULER(s);

	return ms_begin(&s, now_ns);
}

__noinline u32 scheduler_late(u64 now_ns, u32 from)
{
	SCHEDULER(s);

	return ms_late(&s, now_ns, from);
}

__noinline u32 scheduler_select(void)
{
	SCHEDULER(s);

	return ms_select(&s);
}

__noinline int scheduler_departed(u64 now_ns, u32 stream, u32 sent, u64 arrival_ns, u32 bytes)
{
	SCHEDULER(s);

	ms_departed(&s, now_ns, stream, sent, arrival_ns, bytes);
	return 0;
}

__noinline u32 scheduler_arrive_in_flow(u64 now_ns, u32 stream, u32 hash, u32 bytes)
{
	SCHEDULER(s);

	/* The kernel gives a BPF qdisc no means to write packets, so none can be marked. */
	return ms_arrive_in_flow(&s, now_ns, stream, hash, bytes, 0);
}

/* Returns the flow in the lower half, and the number of packets in the upper one. */
__noinline u64 scheduler_overflow(u32 stream)
{
	SCHEDULER(s);
	u32 count, flow = ms_overflow(&s, stream, &count);

	return (u64)count << 32 | flow;
}

__noinline int scheduler_left_flow(u32 stream, u32 flow, u32 full, u64 arrival_ns, u32 bytes)
{
	SCHEDULER(s);

	ms_left_flow(&s, stream, flow, full, arrival_ns, bytes, 0);
	return 0;
}

__noinline int scheduler_needs_head(u64 now_ns, u32 stream)
{
	SCHEDULER(s);

	return ms_needs_head(&s, now_ns, stream);
}

/* Returns the flow in the lower half, and the action in the upper one. */
__noinline u64 scheduler_pull(u64 now_ns, u32 stream)
{
	SCHEDULER(s);
	u32 action, flow = ms_pull(&s, now_ns, stream, &action);

	return (u64)action << 32 | flow;
}

__noinline int scheduler_join(u64 now_ns, u32 stream, u64 arrival_ns, u32 bytes)
{
	SCHEDULER(s);

	ms_join(&s, now_ns, stream, arrival_ns, bytes);
	return 0;
}

__noinline u64 scheduler_next_opening_ns(void)
{
	SCHEDULER(s);
	u32 first;

	return ms_next_opening_ns(&s, &first);
}

__noinline u64 scheduler_transmission_ns(u32 bytes)
{
	SCHEDULER(s);

	return ms_transmission_ns(&s, bytes);
}

__noinline int scheduler_reconfigure(u64 now_ns, u32 stream)
{
	struct ms_scheduler s = { &ms_configs[~ms_link.applied & 1], &ms_state, &ms_flows };

	ms_reconfigure(&s, configuration(), now_ns, stream);
	return 0;
}

__noinline int scheduler_reset(void)
{
	SCHEDULER(s);

	ms_reset(&s);
	return 0;
}

/* The fields of a packet that rules match. */
struct fields {
	u32 source[4], destination[4];
	u64 cgroup;
	u32 mark, protocol, dscp;
	u16 source_port, destination_port;
};

static __always_inline void read_ports(struct fields *fields, struct bpf_dynptr *packet, u32 at)
{
	__be16 buffer[2], *ports;

	if (fields->protocol != 6 && fields->protocol != 17)
		return;
	ports = bpf_dynptr_slice(packet, at, buffer, sizeof(buffer));
	if (!ports)
		return;
	fields->source_port = bpf_ntohs(ports[0]);
	fields->destination_port = bpf_ntohs(ports[1]);
}

/* Reads the IP header. Of IPv6, only ports directly behind the header are seen. */
static __always_inline void read_fields(struct fields *fields, struct sk_buff *skb)
{
	u32 at = skb->network_header - (u32)(skb->data - skb->head);
	struct bpf_dynptr packet;

	if (bpf_dynptr_from_skb((struct __sk_buff *)skb, 0, &packet))
		return;
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr buffer, *ip = bpf_dynptr_slice(&packet, at, &buffer, sizeof(buffer));

		if (!ip)
			return;
		fields->source[2] = fields->destination[2] = bpf_htonl(0xffff);
		fields->source[3] = ip->saddr;
		fields->destination[3] = ip->daddr;
		fields->protocol = ip->protocol;
		fields->dscp = ip->tos >> 2;
		/* Only the first fragment has ports. */
		if (!(ip->frag_off & bpf_htons(0x1fff)))
			read_ports(fields, &packet, at + ip->ihl * 4);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr buffer, *ip = bpf_dynptr_slice(&packet, at, &buffer, sizeof(buffer));

		if (!ip)
			return;
		__builtin_memcpy(fields->source, &ip->saddr, 16);
		__builtin_memcpy(fields->destination, &ip->daddr, 16);
		fields->protocol = ip->nexthdr;
		fields->dscp = ip->priority << 2 | ip->flow_lbl[0] >> 6;
		read_ports(fields, &packet, at + sizeof(*ip));
	}
}

/*
 * BPF qdiscs may not call bpf_skb_cgroup_id(): these functions read what it reads. They have stack
 * frames of their own, as the verifier lets no helper write where a dynptr has been.
 */

/* Returns the cgroup of the sending socket; 0 for forwarded packets. */
static __noinline u64 read_cgroup(struct sk_buff *skb)
{
	struct sock *sk = BPF_CORE_READ(skb, sk);
	u8 state;

	if (!sk)
		return 0;
	/* These are smaller than a socket and have no cgroup. */
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (state == TCP_TIME_WAIT || state == TCP_NEW_SYN_RECV)
		return 0;
	return (u64)BPF_CORE_READ(sk, sk_cgrp_data.cgroup);
}

/* Returns the number of the cgroup at `level` above `of`, or of itself; 0 if there is none. */
static __noinline u64 ancestor_id(u64 of, u32 level)
{
	struct cgroup *cgroup = (struct cgroup *)of, *above = NULL;

	if (!cgroup || BPF_CORE_READ(cgroup, level) < (int)level)
		return 0;
	bpf_probe_read_kernel(&above, sizeof(above),
			      (void *)cgroup + bpf_core_field_offset(struct cgroup, ancestors) +
				      level * sizeof(above));
	return BPF_CORE_READ(above, kn, id);
}

/* Returns whether the filter that begins at an instruction accepts a packet. */
static __noinline int filter_accepts(struct sk_buff *skb, u32 first)
{
	struct ms_filter_state *state = &ms_filter_state;
	struct bpf_dynptr packet;
	u32 i;

	if (bpf_dynptr_from_skb((struct __sk_buff *)skb, 0, &packet))
		return 0;
	__builtin_memset(state, 0, sizeof(*state));
	bpf_for(i, 0, MS_FILTER_STEPS) {
		u32 at = (first + state->at) & (MS_INSTRUCTIONS - 1);

		if (!ms_filter_step(state, &ms_rules.instructions[at], &packet, skb->len))
			break;
	}
	return state->accepts;
}

static __always_inline int port_matches(u16 port, u16 first, u16 last)
{
	return last == 0 || (port >= first && port <= last);
}

static __always_inline int rule_matches(const struct ms_rule *rule, const struct fields *fields)
{
	u32 differ = (fields->mark ^ rule->mark) & rule->mark_mask;
	int word;

#pragma unroll
	for (word = 0; word < 4; word++) {
		differ |= (fields->source[word] ^ rule->source[word]) & rule->source_mask[word];
		differ |= (fields->destination[word] ^ rule->destination[word]) &
			  rule->destination_mask[word];
	}
	if (differ || (rule->protocol && rule->protocol != fields->protocol))
		return 0;
	if (rule->dscp && !(rule->dscp >> (fields->dscp & 63) & 1))
		return 0;
	if (rule->cgroup && ancestor_id(fields->cgroup, rule->cgroup_level) != rule->cgroup)
		return 0;
	return port_matches(fields->source_port, rule->source_port, rule->source_port_last) &&
	       port_matches(fields->destination_port, rule->destination_port,
			    rule->destination_port_last);
}

static __always_inline u32 classify(struct sk_buff *skb)
{
	struct fields fields = {};
	u32 i, count = ms_rules.count, stream = ms_rules.others;

	fields.mark = skb->mark;
	if (count)
		read_fields(&fields, skb);
	if (ms_rules.has_cgroups)
		fields.cgroup = read_cgroup(skb);
	bpf_for(i, 0, count) {
		const struct ms_rule *rule = &ms_rules.rules[i & (RULES - 1)];

		if (i < RULES && rule_matches(rule, &fields) &&
		    (!rule->filter || filter_accepts(skb, rule->filter - 1))) {
			stream = rule->stream;
			break;
		}
	}
	return stream;
}

static __always_inline void apply_changes(u64 now_ns)
{
	struct ms_scheduler s = { &ms_configs[ms_current & 1], &ms_state, &ms_flows };
	u32 i, next = ms_current & 1;

	if (next == ms_link.applied)
		return;
	scheduler_advance(now_ns);
	MS_EACH(i, ms_streams(&s))
		scheduler_reconfigure(now_ns, i);
	ms_link.applied = next;
}

static __always_inline int has_flows(u32 stream)
{
	SCHEDULER(s);

	return ms_has_flows(&s, stream);
}

/* Returns the packet of a number, NULL for 0. */
static __always_inline struct packet *packet_at(u32 number)
{
	u32 at = number - 1;

	return bpf_map_lookup_elem(&ms_packets, &at);
}

/* Takes a free packet and stores its number. Returns NULL if all are used. */
static __always_inline struct packet *take_packet(u32 *number)
{
	struct packet *packet = packet_at(ms_pool.free);

	*number = ms_pool.free;
	if (packet) {
		ms_pool.free = packet->next;
		return packet;
	}
	if (ms_pool.highest < LIMIT)
		*number = ++ms_pool.highest;
	return packet_at(*number);
}

static __always_inline void free_packet(u32 number, struct packet *packet)
{
	packet->next = ms_pool.free;
	ms_pool.free = number;
}

/* Appends a packet to a queue. */
static __always_inline void append(struct queue *queue, u32 number, struct packet *packet)
{
	struct packet *last = packet_at(queue->last);

	packet->next = 0;
	if (last)
		last->next = number;
	else
		queue->first = number;
	queue->last = number;
}

/*
 * Removes the head of a queue and stores its number; stores the arrival time and length of the next
 * packet. Returns NULL if the queue is empty.
 */
static __always_inline struct packet *pop(u32 at, u32 *number, u64 *next_ns, u32 *next_bytes)
{
	struct queue *queue = bpf_map_lookup_elem(&ms_queues, &at);
	struct packet *packet, *next;

	*number = 0;
	*next_ns = 0;
	*next_bytes = 0;
	if (!queue)
		return NULL;
	*number = queue->first;
	packet = packet_at(*number);
	if (!packet)
		return NULL;
	queue->first = packet->next;
	next = packet_at(packet->next);
	if (next) {
		*next_ns = next->arrival_ns;
		*next_bytes = next->bytes;
	} else {
		queue->last = 0;
	}
	return packet;
}

/* Frees a packet and returns its data, which may be NULL. */
static __always_inline struct sk_buff *unwrap(u32 number, struct packet *packet)
{
	struct sk_buff *skb = NULL;

	skb = bpf_kptr_xchg(&packet->skb, skb);
	free_packet(number, packet);
	return skb;
}

/* Counts a packet that leaves. */
static __always_inline void count_departure(struct Qdisc *sch, u32 bytes)
{
	sch->q.qlen--;
	sch->qstats.backlog -= bytes;
}

/*
 * Drops packets of the longest flows until the limits of the stream's flows hold. Returns whether
 * `flow` lost one.
 */
static __always_inline int drop_overflow(struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free,
					 u64 now_ns, u32 stream, u32 flow)
{
	u32 i, count = 0, longest = MS_NONE, number, next_bytes;
	int is_own = 0;
	u64 next_ns;

	bpf_for(i, 0, LIMIT) {
		struct packet *packet;
		struct sk_buff *skb;
		u32 bytes;

		if (!count) {
			u64 overflow = scheduler_overflow(stream);

			count = overflow >> 32;
			longest = overflow;
			if (!count)
				break;
		}
		count--;
		packet = pop(MS_STREAMS + longest, &number, &next_ns, &next_bytes);
		if (!packet)
			break;
		bytes = packet->bytes;
		skb = unwrap(number, packet);
		scheduler_left_flow(stream, longest, 1, next_ns, next_bytes);
		log_event(now_ns, stream, bytes, EVENT_OVERFLOW);
		count_departure(sch, bytes);
		sch->qstats.drops++;
		is_own |= longest == flow;
		if (skb)
			bpf_qdisc_skb_drop(skb, to_free);
	}
	return is_own;
}

/* Moves the next packet of the stream's flows, if there is one, to the end of its queue. */
static __always_inline void pull(struct Qdisc *sch, u64 now_ns, u32 stream)
{
	struct queue *queue = bpf_map_lookup_elem(&ms_queues, &stream);
	u32 i, number, next_bytes;
	u64 next_ns;

	if (!queue)
		return;
	bpf_for(i, 0, LIMIT) {
		u64 pulled = scheduler_pull(now_ns, stream), arrival_ns;
		struct packet *packet;
		struct sk_buff *skb;
		u32 bytes;

		if ((u32)pulled == MS_NONE)
			break;
		packet = pop(MS_STREAMS + (u32)pulled, &number, &next_ns, &next_bytes);
		if (!packet)
			break;
		scheduler_left_flow(stream, pulled, 0, next_ns, next_bytes);
		bytes = packet->bytes;
		if (pulled >> 32 != MS_DROP) {
			arrival_ns = packet->arrival_ns;
			append(queue, number, packet);
			scheduler_join(now_ns, stream, arrival_ns, bytes);
			break;
		}
		skb = unwrap(number, packet);
		log_event(now_ns, stream, bytes, EVENT_AQM);
		count_departure(sch, bytes);
		sch->qstats.drops++;
		if (skb)
			bpf_kfree_skb(skb);
	}
}

SEC("struct_ops/ms_enqueue")
int BPF_PROG(ms_enqueue, struct sk_buff *skb, struct Qdisc *sch, struct bpf_sk_buff_ptr *to_free)
{
	u32 bytes = ((struct qdisc_skb_cb *)skb->cb)->pkt_len, stream = classify(skb);
	u64 now_ns = bpf_ktime_get_ns() - ms_link.began_ns;
	u32 at = stream, flow = MS_NONE, number;
	struct packet *packet;
	struct queue *queue;
	int is_own = 0;

	apply_changes(now_ns);
	if (stream >= configuration()->streams || sch->q.qlen >= sch->limit)
		goto drop;
	packet = take_packet(&number);
	if (!packet)
		goto drop;
	if (has_flows(stream)) {
		u32 hash = bpf_skb_get_hash(skb);

		flow = scheduler_arrive_in_flow(now_ns, stream, hash, bytes);
		at = MS_STREAMS + flow;
		log_event(now_ns, stream, hash, EVENT_HASH);
	} else if (!scheduler_arrive(now_ns, stream, bytes)) {
		log_event(now_ns, stream, bytes, EVENT_FULL);
		free_packet(number, packet);
		goto drop;
	}
	log_event(now_ns, stream, bytes, EVENT_ARRIVED);
	queue = bpf_map_lookup_elem(&ms_queues, &at);
	if (!queue) {
		/* The scheduler returns flows of the map. */
		free_packet(number, packet);
		goto drop;
	}
	packet->arrival_ns = now_ns;
	packet->bytes = bytes;
	sch->q.qlen++;
	sch->qstats.backlog += bytes;
	skb = bpf_kptr_xchg(&packet->skb, skb);
	if (skb)
		bpf_qdisc_skb_drop(skb, to_free);
	append(queue, number, packet);
	if (flow == MS_NONE)
		return 0;
	is_own = drop_overflow(sch, to_free, now_ns, stream, flow);
	if (scheduler_needs_head(now_ns, stream))
		pull(sch, now_ns, stream);
	/* As fq_codel: the sender learns that its flow lost a packet. */
	return is_own ? NET_XMIT_CN : 0;
drop:
	sch->qstats.drops++;
	bpf_qdisc_skb_drop(skb, to_free);
	return NET_XMIT_DROP;
}

__noinline int count_sojourn(u32 stream, u64 sojourn_ns)
{
	u32 bucket = 0, shift;

	stream &= MS_STREAMS - 1;
	ms_link.sojourn_ns[stream] += sojourn_ns;
	if (sojourn_ns > ms_link.longest_ns[stream])
		ms_link.longest_ns[stream] = sojourn_ns;
#pragma unroll
	for (shift = 32; shift; shift >>= 1) {
		if (sojourn_ns >> shift) {
			sojourn_ns >>= shift;
			bucket += shift;
		}
	}
	if (bucket > 39)
		bucket = 39;
	ms_link.sojourn[stream][bucket]++;
	return 0;
}

/* Drops the late head of a stream. Returns 0 if there is none, which does not happen. */
static __always_inline int drop_late(struct Qdisc *sch, u64 now_ns, u32 stream)
{
	struct packet *packet;
	struct sk_buff *skb;
	u32 number, next_bytes, bytes;
	u64 next_ns;

	packet = pop(stream, &number, &next_ns, &next_bytes);
	if (!packet)
		return 0;
	bytes = packet->bytes;
	skb = unwrap(number, packet);
	scheduler_departed(now_ns, stream, 0, next_ns, next_bytes);
	log_event(now_ns, stream, bytes, EVENT_LATE);
	count_departure(sch, bytes);
	sch->qstats.drops++;
	if (skb)
		bpf_kfree_skb(skb);
	return 1;
}

/* Lets the kernel call ms_dequeue at a time. */
static __always_inline void wake_at(struct Qdisc *sch, u64 due_ns)
{
	ms_link.due_ns = due_ns;
	bpf_qdisc_watchdog_schedule(sch, ms_link.began_ns + due_ns, 0);
}

SEC("struct_ops/ms_dequeue")
struct sk_buff *BPF_PROG(ms_dequeue, struct Qdisc *sch)
{
	u64 now_ns = bpf_ktime_get_ns() - ms_link.began_ns, next_ns, from_ns;
	u32 i, stream = 0, number, bytes, next_bytes;
	struct packet *packet;
	struct sk_buff *skb;

	apply_changes(now_ns);
	if (now_ns < ms_link.free_ns) {
		wake_at(sch, ms_link.free_ns);
		return NULL;
	}
	if (ms_link.due_ns && now_ns > ms_link.due_ns + ms_link.timer_late_ns)
		ms_link.timer_late_ns = now_ns - ms_link.due_ns;
	ms_link.due_ns = 0;
	if (!scheduler_begin(now_ns)) {
		log_event(now_ns, 0, 0, EVENT_IDLE);
		ms_link.busy = 0;
		return NULL;
	}
	bpf_for(i, 0, LIMIT) {
		stream = scheduler_late(now_ns, stream);
		if (stream == MS_NONE || !drop_late(sch, now_ns, stream))
			break;
	}
	stream = scheduler_select();
	if (stream == MS_NONE) {
		log_event(now_ns, 0, 0, EVENT_IDLE);
		ms_link.busy = 0;
		next_ns = scheduler_next_opening_ns();
		if (next_ns != MS_NEVER)
			wake_at(sch, next_ns);
		return NULL;
	}
	/* The successor follows the head before it leaves. */
	if (has_flows(stream))
		pull(sch, now_ns, stream);
	packet = pop(stream, &number, &next_ns, &next_bytes);
	if (!packet)
		return NULL;
	bytes = packet->bytes;
	count_sojourn(stream, now_ns - packet->arrival_ns);
	skb = unwrap(number, packet);
	scheduler_departed(now_ns, stream, 1, next_ns, next_bytes);
	log_event(now_ns, stream, bytes, EVENT_SENT);
	/* A timer fires late: a busy link begins at the end of the last transmission. */
	from_ns = now_ns;
	if (ms_link.busy && now_ns - ms_link.free_ns < CATCH_UP_NS)
		from_ns = ms_link.free_ns;
	ms_link.free_ns = from_ns + scheduler_transmission_ns(bytes);
	ms_link.busy = 1;
	count_departure(sch, bytes);
	if (skb)
		bpf_qdisc_bstats_update(sch, skb);
	return skb;
}

SEC("struct_ops/ms_init")
int BPF_PROG(ms_init, struct Qdisc *sch, struct nlattr *opt, struct netlink_ext_ack *extack)
{
	if (ms_link.owner)
		return -EBUSY;
	ms_link.owner = (u64)sch;
	ms_link.began_ns = bpf_ktime_get_ns();
	ms_link.free_ns = 0;
	ms_link.due_ns = 0;
	ms_link.busy = 0;
	ms_link.applied = ms_current & 1;
	scheduler_reset();
	sch->limit = LIMIT;
	return 0;
}

SEC("struct_ops/ms_reset")
void BPF_PROG(ms_reset_qdisc, struct Qdisc *sch)
{
	u32 i, at, number, next_bytes;
	u64 next_ns;

	bpf_for(at, 0, QUEUES) {
		bpf_for(i, 0, LIMIT) {
			struct packet *packet = pop(at, &number, &next_ns, &next_bytes);
			struct sk_buff *skb;

			if (!packet)
				break;
			skb = unwrap(number, packet);
			if (skb)
				bpf_kfree_skb(skb);
		}
	}
	scheduler_reset();
	/* The kernel cancels the timer. */
	ms_link.due_ns = 0;
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
}

SEC("struct_ops/ms_destroy")
void BPF_PROG(ms_destroy, struct Qdisc *sch)
{
	/* The kernel also destroys a qdisc that was refused. */
	if (ms_link.owner == (u64)sch)
		ms_link.owner = 0;
}

SEC(".struct_ops.link")
struct Qdisc_ops millstream = {
	.enqueue = (void *)ms_enqueue,
	.dequeue = (void *)ms_dequeue,
	.init = (void *)ms_init,
	.reset = (void *)ms_reset_qdisc,
	.destroy = (void *)ms_destroy,
	.id = "millstream",
};
