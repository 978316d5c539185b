/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * CoDel: controlled delay (RFC 8289), the engine's `aqm::codel`.
 *
 * While packets have waited longer than the target for at least an interval, CoDel drops one, and
 * then more, at intervals of interval / sqrt(count). It marks a packet whose sender reacts to marks
 * instead. Each drop or mark takes one division and a square root of 32 steps.
 */
#ifndef MILLSTREAM_CODEL_H
#define MILLSTREAM_CODEL_H

#include "arithmetic.h"

enum ms_action { MS_DELIVER, MS_MARK, MS_DROP };

struct ms_codel_options {
	u64 target_ns;
	/* Below 2^48. */
	u64 interval_ns;
};

struct ms_codel {
	/* When the sojourn time will have been above the target for an interval; 0 while below. */
	u64 first_above_ns;
	u64 drop_next_ns;
	/* Drops since the flow entered drop state, and at its last entry. */
	u32 count, last_count;
	u32 dropping;
	/* Flags of a removal, in which several packets may be dropped. */
	u32 removal;
};

#define MS_BEGUN 1u
/* The removal began in drop state. */
#define MS_IN_LOOP 2u
/* The loop has dropped a packet; the time of the next drop is not set yet. */
#define MS_DROPPED 4u
/* The flow entered drop state in this removal. */
#define MS_ENTERED 8u

/* The packet at the head of a flow. */
struct ms_candidate {
	u64 sojourn_ns;
	/* The bytes that wait besides it in the stream, and the largest packet seen there. */
	u64 backlog_bytes;
	u32 largest_bytes;
	u32 can_mark;
};

/* Returns floor(sqrt(n)). */
MS_INLINE u64 ms_root(u64 n)
{
	u64 root = 0;
	u32 i;

	MS_EACH(i, 32) {
		u64 next = root | 1ull << (31 - (i & 31));

		if (next * next <= n)
			root = next;
	}
	return root;
}

/* Returns the time of the drop after one at `from_ns`. The root has 16 bits of fraction. */
MS_INLINE u64 ms_control_law(u64 from_ns, u64 interval_ns, u32 count)
{
	u64 root = ms_root((u64)count << 32);

	return ms_add_saturating(from_ns, (interval_ns << 16) / (root ? root : 1));
}

/* Returns whether packets have waited too long for at least an interval. */
MS_INLINE int ms_is_standing(struct ms_codel *codel, const struct ms_codel_options *options,
			     u64 now_ns, const struct ms_candidate *head)
{
	if (head->sojourn_ns < options->target_ns || head->backlog_bytes <= head->largest_bytes) {
		codel->first_above_ns = 0;
		return 0;
	}
	if (codel->first_above_ns == 0) {
		codel->first_above_ns = now_ns + options->interval_ns;
		return 0;
	}
	return now_ns >= codel->first_above_ns;
}

/* Ends a removal that finds no packet. */
MS_INLINE void ms_codel_empty(struct ms_codel *codel)
{
	codel->first_above_ns = 0;
	codel->dropping = 0;
	codel->removal = 0;
}

/* Decides in the loop of a removal that began in drop state. */
MS_INLINE u32 ms_codel_loop(struct ms_codel *codel, const struct ms_codel_options *options,
			    u64 now_ns, int is_standing, u32 signal)
{
	if (!is_standing) {
		codel->dropping = 0;
		return MS_DELIVER;
	}
	if (codel->removal & MS_DROPPED)
		codel->drop_next_ns = ms_control_law(codel->drop_next_ns, options->interval_ns,
						     codel->count);
	codel->removal &= ~MS_DROPPED;
	if (now_ns < codel->drop_next_ns)
		return MS_DELIVER;
	codel->count += codel->count != ~0u;
	if (signal == MS_DROP)
		codel->removal |= MS_DROPPED;
	else
		codel->drop_next_ns = ms_control_law(codel->drop_next_ns, options->interval_ns,
						     codel->count);
	return signal;
}

/* Enters drop state: soon after the last time, at the rate that worked then. */
MS_INLINE u32 ms_codel_enter(struct ms_codel *codel, const struct ms_codel_options *options,
			     u64 now_ns, u32 signal)
{
	u64 since_ns = now_ns > codel->drop_next_ns ? now_ns - codel->drop_next_ns : 0;
	u32 dropped = codel->count - codel->last_count;

	codel->removal |= MS_ENTERED;
	codel->dropping = 1;
	codel->count = since_ns < 16 * options->interval_ns && dropped > 1 ? dropped : 1;
	codel->drop_next_ns = ms_control_law(now_ns, options->interval_ns, codel->count);
	codel->last_count = codel->count;
	return signal;
}

/* Decides on the packet at the head of a flow. After MS_DROP, call again for the next packet. */
MS_INLINE u32 ms_codel_next(struct ms_codel *codel, const struct ms_codel_options *options,
			    u64 now_ns, const struct ms_candidate *head)
{
	u32 signal = head->can_mark ? MS_MARK : MS_DROP, action = MS_DELIVER;
	int is_standing = ms_is_standing(codel, options, now_ns, head);

	if (!(codel->removal & MS_BEGUN))
		codel->removal = MS_BEGUN | (codel->dropping ? MS_IN_LOOP : 0);
	if (!(codel->removal & MS_ENTERED)) {
		if (codel->removal & MS_IN_LOOP)
			action = ms_codel_loop(codel, options, now_ns, is_standing, signal);
		else if (is_standing)
			action = ms_codel_enter(codel, options, now_ns, signal);
	}
	if (action != MS_DROP)
		codel->removal = 0;
	return action;
}

#endif
