/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The packets of a stream in queues by flow: DRR++ with priority of sparse flows (RFC 8290), each
 * flow under CoDel; the engine's `flow_queue`.
 *
 *	hash -> set of 8 flows -> [packets of the flow]
 *	new flows, then old flows -> deficit -> CoDel
 *
 * The caller stores the packets, in a list of each flow. ms_flow_push() returns the flow of an
 * arrival. ms_flow_overflow() then returns flows whose first packets must be dropped, until the
 * limits hold. ms_flow_next() returns the flow whose first packet is dropped or leaves; the caller
 * repeats it until a packet leaves. ms_flow_popped() reports every packet that was removed.
 *
 * All streams share one array of flows; each has a range of it. A push takes constant time, a drop
 * at a limit one step a flow, and a pull visits a flow again only after another quantum.
 */
#ifndef MILLSTREAM_FLOWS_H
#define MILLSTREAM_FLOWS_H

#include "codel.h"

/* The flows of all streams; a power of two, so that an index is bounded by a mask. */
#define MS_FLOWS 4096
/* The flows of a set: a hash is looked up in one set only. */
#define MS_WAYS 8
/* The maximum number of packets dropped from the longest flow at once (RFC 8290, section 4.1). */
#define MS_DROP_BATCH 64
/* The maximum number of turns in a pull: all flows have sent a packet of 1,024 quanta. */
#define MS_FLOW_TURNS (1024 * MS_FLOWS)

#define MS_CODEL 1u
#define MS_ECN 2u

/* The flows of a stream. */
struct ms_flow_options {
	/* Its first flow, a multiple of MS_WAYS, and their number; 0 if it has one queue. */
	u32 first, count;
	/* The flows of a set that exist: the bit of each. */
	u32 ways;
	u32 flags;
	u32 quantum;
	u32 limit_packets;
	u64 count_inverse;
	u64 limit_bytes;
	struct ms_codel_options codel;
};

struct ms_flow {
	u64 bytes;
	/* Bytes that the flow may still send in its turn. */
	s64 deficit;
	u64 head_arrival_ns;
	u32 head_bytes, head_can_mark;
	u32 packets;
	/* The next flow of its list. */
	u32 next;
	struct ms_codel codel;
};

/* The hashes of a set, and the bits of the flows that are in use. */
struct ms_flow_set {
	u32 hashes[MS_WAYS];
	u32 used;
};

struct ms_flows {
	struct ms_flow flows[MS_FLOWS];
	struct ms_flow_set sets[MS_FLOWS / MS_WAYS];
};

/* A list of flows; MS_NONE if it is empty. */
struct ms_flow_list {
	u32 first, last;
};

/* The packets of all flows of a stream. */
struct ms_flow_queue {
	u64 bytes;
	u32 packets;
	u32 largest_bytes;
	/* The number of flows in use. */
	u32 used;
	u32 unused;
	struct ms_flow_list fresh, old;
};

MS_INLINE struct ms_flow *ms_flow(struct ms_flows *flows, u32 at)
{
	return &flows->flows[at & (MS_FLOWS - 1)];
}

MS_INLINE struct ms_flow_set *ms_flow_set(struct ms_flows *flows, u32 at)
{
	return &flows->sets[at / MS_WAYS & (MS_FLOWS / MS_WAYS - 1)];
}

MS_INLINE int ms_is_used(const struct ms_flow_set *set, u32 at)
{
	return set->used >> (at & (MS_WAYS - 1)) & 1;
}

/* Returns the lowest bit of 8. */
MS_INLINE u32 ms_lowest_bit(u32 bits)
{
	u32 lowest = bits & -bits;

	return ((lowest & 0xaa) > 0) | ((lowest & 0xcc) > 0) << 1 | ((lowest & 0xf0) > 0) << 2;
}

/* Returns the flow of a hash: its own, a free one of its set, or one that it shares. */
MS_INLINE u32 ms_flow_find(struct ms_flows *flows, const struct ms_flow_options *options, u32 hash)
{
	struct ms_flow_set *set;
	u32 at, own, start, way, same = 0, unused;
	u64 rest;

	ms_divide(hash, options->count, options->count_inverse, &rest);
	at = options->first + (u32)rest;
	own = at & (MS_WAYS - 1);
	start = at - own;
	set = ms_flow_set(flows, at);
	if (ms_is_used(set, at) && set->hashes[own] == hash)
		return at;
#pragma GCC unroll 8
	for (way = 0; way < MS_WAYS; way++)
		same |= (set->hashes[way] == hash) << way;
	same &= set->used;
	unused = ~set->used & options->ways;
	if (same)
		return start + ms_lowest_bit(same);
	if (!unused || unused >> own & 1)
		return at;
	return start + ms_lowest_bit(unused);
}

MS_INLINE void ms_flow_append(struct ms_flows *flows, struct ms_flow_list *list, u32 at)
{
	ms_flow(flows, at)->next = MS_NONE;
	if (list->first == MS_NONE)
		list->first = at;
	else
		ms_flow(flows, list->last)->next = at;
	list->last = at;
}

/* Appends an arrival; returns its flow. */
MS_INLINE u32 ms_flow_push(struct ms_flows *flows, struct ms_flow_queue *queue,
			   const struct ms_flow_options *options, u64 now_ns, u32 hash, u32 bytes,
			   u32 can_mark)
{
	u32 at = ms_flow_find(flows, options, hash);
	struct ms_flow_set *set = ms_flow_set(flows, at);
	struct ms_flow *flow = ms_flow(flows, at);

	if (!flow->packets) {
		flow->head_arrival_ns = now_ns;
		flow->head_bytes = bytes;
		flow->head_can_mark = can_mark;
	}
	flow->packets++;
	flow->bytes += bytes;
	queue->packets++;
	queue->bytes += bytes;
	if (bytes > queue->largest_bytes)
		queue->largest_bytes = bytes;
	if (!ms_is_used(set, at)) {
		set->hashes[at & (MS_WAYS - 1)] = hash;
		set->used |= 1u << (at & (MS_WAYS - 1));
		queue->used++;
		flow->deficit = options->quantum;
		ms_flow_append(flows, &queue->fresh, at);
	}
	return at;
}

/* Reports that the first packet of a flow was removed; the arguments are of the next one. */
MS_INLINE void ms_flow_popped(struct ms_flows *flows, struct ms_flow_queue *queue, u32 at,
			      u64 arrival_ns, u32 bytes, u32 can_mark)
{
	struct ms_flow *flow = ms_flow(flows, at);

	flow->packets--;
	flow->bytes -= flow->head_bytes;
	queue->packets--;
	queue->bytes -= flow->head_bytes;
	flow->head_arrival_ns = arrival_ns;
	flow->head_bytes = bytes;
	flow->head_can_mark = can_mark;
}

/*
 * Returns the flow with the most bytes if a limit is exceeded, or MS_NONE. Stores the number of its
 * first packets that must be dropped; call again after that.
 */
MS_INLINE u32 ms_flow_overflow(struct ms_flows *flows, const struct ms_flow_queue *queue,
			       const struct ms_flow_options *options, u32 *count)
{
	u32 i, longest = MS_NONE;
	u64 most = 0;

	*count = 0;
	if (queue->packets <= options->limit_packets && queue->bytes <= options->limit_bytes)
		return MS_NONE;
	MS_EACH(i, options->count) {
		struct ms_flow *flow = ms_flow(flows, options->first + i);

		if (flow->packets && (longest == MS_NONE || flow->bytes > most)) {
			longest = options->first + i;
			most = flow->bytes;
			*count = flow->packets / 2 + (flow->packets & 1);
		}
	}
	if (*count > MS_DROP_BATCH)
		*count = MS_DROP_BATCH;
	return longest;
}

/* Decides on the first packet of a flow. */
MS_INLINE u32 ms_flow_action(struct ms_flow *flow, const struct ms_flow_queue *queue,
			     const struct ms_flow_options *options, u64 now_ns)
{
	struct ms_candidate head;

	if (!(options->flags & MS_CODEL))
		return MS_DELIVER;
	head.sojourn_ns = now_ns > flow->head_arrival_ns ? now_ns - flow->head_arrival_ns : 0;
	head.backlog_bytes = queue->bytes - flow->head_bytes;
	head.largest_bytes = queue->largest_bytes;
	head.can_mark = options->flags & MS_ECN && flow->head_can_mark;
	return ms_codel_next(&flow->codel, &options->codel, now_ns, &head);
}

/*
 * Returns the flow whose first packet is removed next, or MS_NONE if no packet is left. Stores
 * whether it is delivered, marked and delivered, or dropped; after a drop, call again.
 */
MS_INLINE u32 ms_flow_next(struct ms_flows *flows, struct ms_flow_queue *queue,
			   const struct ms_flow_options *options, u64 now_ns, u32 *action)
{
	u32 turn;

	*action = MS_DELIVER;
	MS_EACH(turn, MS_FLOW_TURNS) {
		int is_fresh = queue->fresh.first != MS_NONE;
		struct ms_flow_list *list = is_fresh ? &queue->fresh : &queue->old;
		u32 at = list->first;
		struct ms_flow *flow = ms_flow(flows, at);

		if (at == MS_NONE)
			break;
		if (flow->deficit <= 0) {
			flow->deficit += options->quantum;
			list->first = flow->next;
			ms_flow_append(flows, &queue->old, at);
			continue;
		}
		if (flow->packets) {
			*action = ms_flow_action(flow, queue, options, now_ns);
			if (*action != MS_DROP)
				flow->deficit -= flow->head_bytes;
			return at;
		}
		ms_codel_empty(&flow->codel);
		list->first = flow->next;
		/*
		 * A new flow without packets passes the old ones once, so that it does not get its
		 * priority back at once (RFC 8290, section 4.2).
		 */
		if (is_fresh && queue->old.first != MS_NONE) {
			ms_flow_append(flows, &queue->old, at);
		} else {
			ms_flow_set(flows, at)->used &= ~(1u << (at & (MS_WAYS - 1)));
			queue->used--;
		}
	}
	return MS_NONE;
}

/* Forgets all packets of the flows of a stream. */
MS_INLINE void ms_flow_queue_reset(struct ms_flow_queue *queue)
{
	queue->bytes = 0;
	queue->packets = 0;
	queue->largest_bytes = 0;
	queue->used = 0;
	queue->fresh.first = MS_NONE;
	queue->old.first = MS_NONE;
}

/* Forgets all flows. */
MS_INLINE void ms_flows_reset(struct ms_flows *flows)
{
	struct ms_codel codel = { 0, 0, 0, 0, 0, 0 };
	u32 i;

	MS_EACH(i, MS_FLOWS) {
		struct ms_flow *flow = ms_flow(flows, i);

		flow->bytes = 0;
		flow->packets = 0;
		flow->codel = codel;
		ms_flow_set(flows, i)->used = 0;
	}
}

#endif
