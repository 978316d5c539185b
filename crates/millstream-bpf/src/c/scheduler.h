/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The scheduler: disciplines, rate caps and late drop, without packets.
 *
 * The file is compiled natively for the tests and by clang to BPF for the qdisc. It makes the same
 * decisions as the engine's `Scheduler`, event for event: `tests/equal` compares them.
 *
 * The caller stores the packets. It reports an arrival by ms_arrive(). For a decision it calls
 * ms_begin(), drops the heads that ms_late() returns until there is none, and sends the head that
 * ms_select() returns. ms_departed() reports a drop or a service, and the new head.
 *
 * The queue of a stream with flows holds the head only. An arrival is reported by
 * ms_arrive_in_flow(). If ms_needs_head(), and before the head is sent, the caller moves a packet
 * of the flow that ms_pull() returns into the queue, and reports it by ms_join().
 *
 * Written for the BPF verifier and for interrupts: no allocation, no floating point, no 128-bit
 * type. There is no division but in the drops of CoDel, and every loop except those of flows runs
 * once per stream at most.
 */
#ifndef MILLSTREAM_SCHEDULER_H
#define MILLSTREAM_SCHEDULER_H

#include "arithmetic.h"
#include "flows.h"

/* The maximum number of streams; a power of two, so that an index is bounded by a mask. */
#define MS_STREAMS 64

enum ms_discipline { MS_STATIC_PRIORITY, MS_EDF, MS_DWCS, MS_DRR, MS_WF2Q_PLUS };

/* Flags of a contract. */
#define MS_FIRST_DEADLINE 1u
#define MS_DROP_LATE 2u
#define MS_CAPPED 4u

/* Causes of an activation. */
enum ms_activation { MS_ARRIVED, MS_NEXT, MS_OPENED };

/* Locations of a stream: no packets, may be served, behind its rate cap. */
enum ms_location { MS_IDLE, MS_ACTIVE, MS_PARKED };

/* A duration of ns + rest / rate nanoseconds, exact. */
struct ms_time {
	u64 ns, rest;
};

/* The attributes of a stream. User space computes all but the first four from them. */
struct ms_contract {
	u64 period_ns;
	u64 first_deadline_ns;
	u64 cap_bps;
	u32 window_lost, window_of;
	u32 priority;
	u32 queue;
	u32 quantum;
	u32 flags;
	u64 period_inverse;
	u64 window_inverse;
	u64 quantum_inverse;
	u64 cap_inverse;
	/* The burst of the rate cap as a duration at its rate. */
	struct ms_time burst;
	/* Units of virtual time per byte. */
	struct ms_u128 per_byte;
	struct ms_flow_options flows;
};

struct ms_config {
	u32 discipline;
	u32 streams;
	u64 rate_bps;
	u64 rate_inverse;
	u32 overhead;
	u32 logs;
	/* Units of virtual time per ns, and 2^-64 units. */
	struct ms_u128 clock_units;
	u64 clock_fraction;
	struct ms_contract contracts[MS_STREAMS];
};

struct ms_stream {
	u32 location;
	u32 waiting;
	u64 head_arrival_ns;
	u32 head_bytes;
	/* x', and whether a violation occurred since the window was last restored. */
	u32 lost;
	u32 tagged;
	u32 begun;
	/* y'. */
	u64 of;
	/* The head's deadline; that of the last packet while the queue is empty. */
	u64 deadline_ns;
	/* The time at which the cap admits the head; MS_NEVER unless parked. */
	u64 opens_ns;
	/* The theoretical arrival time of the token bucket. */
	struct ms_time arrival;
	s64 deficit;
	u64 turn;
	u64 has_quantum;
	/* S and F of the head; F of the packet served last, and the clock's epoch at its service. */
	struct ms_u128 start, finish, before;
	u64 before_epoch;
	u64 arrivals, sent, sent_bytes, dropped_late, dropped_full, missed, violations;
	u64 dropped_by_aqm, dropped_from_longest;
	struct ms_flow_queue flows;
};

struct ms_state {
	u64 waiting;
	u32 active, parked;
	u64 next_turn;
	u64 clock_ns, epoch;
	struct ms_u128 clock, epoch_began;
	struct ms_stream streams[MS_STREAMS];
};

struct ms_scheduler {
	struct ms_config *config;
	struct ms_state *state;
	/* The flows of all streams. */
	struct ms_flows *flows;
};

MS_INLINE struct ms_stream *ms_stream(const struct ms_scheduler *s, u32 i)
{
	return &s->state->streams[i & (MS_STREAMS - 1)];
}

MS_INLINE struct ms_contract *ms_contract(const struct ms_scheduler *s, u32 i)
{
	return &s->config->contracts[i & (MS_STREAMS - 1)];
}

/* Returns the number of streams; the minimum tells the verifier the bound of loops. */
MS_INLINE u32 ms_streams(const struct ms_scheduler *s)
{
	u32 n = s->config->streams;

	return n < MS_STREAMS ? n : MS_STREAMS;
}

/* Durations. */

/* Returns the time that `bytes` take at a rate. */
MS_INLINE struct ms_time ms_duration(u64 bytes, u64 rate_bps, u64 inverse)
{
	struct ms_time time;

	time.ns = ms_divide(bytes * 8000000000ull, rate_bps, inverse, &time.rest);
	return time;
}

MS_INLINE u64 ms_wire_bytes(const struct ms_scheduler *s, u32 bytes)
{
	return (u64)bytes + s->config->overhead;
}

/* Returns the transmission time of a packet of `bytes` on the link. */
MS_INLINE u64 ms_transmission_ns(const struct ms_scheduler *s, u32 bytes)
{
	struct ms_time time = ms_duration(ms_wire_bytes(s, bytes), s->config->rate_bps,
					  s->config->rate_inverse);

	return time.ns + (time.rest > 0);
}

/* Virtual time: see the engine's `virtual_time`, whose numbers these are. */

/* The maximum distance between a tag and the clock, 2^125 units: its upper half. */
#define MS_SPAN_HI (1ull << 61)

/* Returns the tag's middle 64 bits, by which ranks compare tags. */
MS_INLINE u64 ms_near(struct ms_u128 tag)
{
	struct ms_u128 boundary = { 0, 0x9E3779B97Full << 10 };

	tag = ms_plus(tag, boundary);
	return tag.lo >> 50 | tag.hi << 14;
}

MS_INLINE int ms_near_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* Returns whether `tag` is not after the clock. */
MS_INLINE int ms_reached(const struct ms_scheduler *s, struct ms_u128 tag)
{
	struct ms_u128 ahead = ms_minus(s->state->clock, tag);
	u64 grains = ahead.lo >> 50 | ahead.hi << 14, sign = (u64)((s64)ahead.hi >> 50);

	if (grains == sign && (sign == 0 || sign == ~0ull))
		return !ms_near_before(ms_near(s->state->clock), ms_near(tag));
	return (s64)ahead.hi >= 0;
}

MS_INLINE void ms_clock_forget(struct ms_state *state)
{
	state->epoch += 2;
	state->epoch_began = state->clock;
}

MS_INLINE void ms_clock_advance(struct ms_state *state, struct ms_u128 units)
{
	struct ms_u128 since;

	if (units.hi >= MS_SPAN_HI)
		ms_clock_forget(state);
	state->clock = ms_plus(state->clock, units);
	since = ms_minus(state->clock, state->epoch_began);
	if ((s64)since.hi >= (s64)MS_SPAN_HI) {
		state->epoch++;
		state->epoch_began = state->clock;
	}
}

/* Returns the units of virtual time of `elapsed_ns`, saturating. */
MS_INLINE struct ms_u128 ms_clock_units(const struct ms_config *config, u64 elapsed_ns)
{
	struct ms_u128 low = ms_multiply(config->clock_units.lo, elapsed_ns);
	struct ms_u128 high = ms_multiply(config->clock_units.hi, elapsed_ns);
	struct ms_u128 fraction = { 0, ms_multiply(config->clock_fraction, elapsed_ns).hi };
	struct ms_u128 saturated = { ~0ull, ~0ull }, units = { low.hi + high.lo, low.lo }, sum;

	if (high.hi || units.hi < low.hi)
		return saturated;
	sum = ms_plus(units, fraction);
	return sum.hi < units.hi ? saturated : sum;
}

MS_INLINE void ms_wf2q_stamp(const struct ms_scheduler *s, u32 i, int next)
{
	struct ms_state *state = s->state;
	struct ms_stream *stream = ms_stream(s, i);
	struct ms_contract *contract = ms_contract(s, i);
	struct ms_u128 start = stream->before, length;
	u64 wire = ms_wire_bytes(s, stream->head_bytes);

	/* A tag of two epochs ago is in the past, whatever its bits say. */
	if (!next && (state->epoch - stream->before_epoch >= 2 ||
		      (s64)ms_minus(start, state->clock).hi < 0))
		start = state->clock;
	length = ms_multiply(contract->per_byte.lo, wire);
	length.hi += contract->per_byte.hi * wire;
	stream->start = start;
	stream->finish = ms_plus(start, length);
}

/* Moves the clock to the least start of the active heads if none has started. */
MS_INLINE void ms_wf2q_leap(const struct ms_scheduler *s)
{
	u32 i, n = ms_streams(s), first = MS_NONE;
	u64 least = 0;

	if (!s->state->active)
		return;
	MS_EACH(i, n) {
		struct ms_stream *stream = ms_stream(s, i);
		u64 near;

		if (stream->location != MS_ACTIVE)
			continue;
		if (ms_reached(s, stream->start))
			return;
		near = ms_near(stream->start);
		if (first == MS_NONE || ms_near_before(near, least)) {
			first = i;
			least = near;
		}
	}
	if (first != MS_NONE) {
		struct ms_u128 ahead = ms_minus(ms_stream(s, first)->start, s->state->clock);

		if ((s64)ahead.hi >= 0)
			ms_clock_advance(s->state, ahead);
	}
}

MS_INLINE void ms_clock_reach(const struct ms_scheduler *s, u64 now_ns)
{
	struct ms_state *state = s->state;

	if (s->config->discipline != MS_WF2Q_PLUS)
		return;
	if (now_ns > state->clock_ns) {
		u64 elapsed_ns = now_ns - state->clock_ns;

		ms_clock_advance(state, ms_clock_units(s->config, elapsed_ns));
		state->clock_ns = now_ns;
	}
	ms_wf2q_leap(s);
}

/* Rate caps. */

/* Returns the time from which the head of stream `i` conforms to its rate cap. */
MS_INLINE u64 ms_conforms_ns(const struct ms_scheduler *s, u32 i)
{
	struct ms_contract *contract = ms_contract(s, i);
	struct ms_stream *stream = ms_stream(s, i);
	u64 wire = ms_wire_bytes(s, stream->head_bytes);
	struct ms_time burst = contract->burst;
	struct ms_time at = ms_duration(wire, contract->cap_bps, contract->cap_inverse);

	at.ns += stream->arrival.ns;
	at.rest += stream->arrival.rest;
	if (at.rest >= contract->cap_bps) {
		at.rest -= contract->cap_bps;
		at.ns++;
	}
	if (at.rest < burst.rest) {
		at.rest += contract->cap_bps;
		burst.ns++;
	}
	if (at.ns < burst.ns)
		return 0;
	return at.ns - burst.ns + (at.rest > burst.rest);
}

MS_INLINE void ms_cap_charge(const struct ms_scheduler *s, u32 i, u64 now_ns)
{
	struct ms_contract *contract = ms_contract(s, i);
	struct ms_stream *stream = ms_stream(s, i);
	u64 wire = ms_wire_bytes(s, stream->head_bytes);
	struct ms_time length = ms_duration(wire, contract->cap_bps, contract->cap_inverse);

	if (stream->arrival.ns < now_ns) {
		stream->arrival.ns = now_ns;
		stream->arrival.rest = 0;
	}
	stream->arrival.ns += length.ns;
	stream->arrival.rest += length.rest;
	if (stream->arrival.rest >= contract->cap_bps) {
		stream->arrival.rest -= contract->cap_bps;
		stream->arrival.ns++;
	}
}

/* Locations and heads. */

MS_INLINE void ms_move(struct ms_state *state, struct ms_stream *stream, u32 location)
{
	state->active += (location == MS_ACTIVE) - (stream->location == MS_ACTIVE);
	state->parked += (location == MS_PARKED) - (stream->location == MS_PARKED);
	stream->location = location;
}

MS_INLINE void ms_drr_join_tail(struct ms_state *state, struct ms_stream *stream)
{
	stream->turn = state->next_turn++;
	stream->has_quantum = 0;
}

MS_INLINE void ms_activate(const struct ms_scheduler *s, u32 i, u32 how)
{
	struct ms_stream *stream = ms_stream(s, i);

	if (s->config->discipline == MS_DRR && how != MS_NEXT) {
		stream->deficit = 0;
		ms_drr_join_tail(s->state, stream);
	}
	if (s->config->discipline == MS_WF2Q_PLUS)
		ms_wf2q_stamp(s, i, how == MS_NEXT);
	stream->opens_ns = MS_NEVER;
	ms_move(s->state, stream, MS_ACTIVE);
}

MS_INLINE void ms_new_head(const struct ms_scheduler *s, u32 i, u64 now_ns, u64 arrival_ns,
			   u32 bytes, u32 how)
{
	struct ms_stream *stream = ms_stream(s, i);
	struct ms_contract *contract = ms_contract(s, i);
	u64 from_ns;

	stream->head_arrival_ns = arrival_ns;
	stream->head_bytes = bytes;
	if (!stream->begun && (contract->flags & MS_FIRST_DEADLINE)) {
		stream->deadline_ns = contract->first_deadline_ns;
	} else {
		from_ns = stream->deadline_ns > arrival_ns ? stream->deadline_ns : arrival_ns;
		stream->deadline_ns = ms_add_saturating(from_ns, contract->period_ns);
	}
	stream->begun = 1;
	from_ns = contract->flags & MS_CAPPED ? ms_conforms_ns(s, i) : 0;
	if (from_ns <= now_ns) {
		ms_activate(s, i, how);
	} else {
		stream->opens_ns = from_ns;
		ms_move(s->state, stream, MS_PARKED);
	}
}

/* Returns the time at which the next rate cap admits a head; MS_NEVER if none waits. */
MS_INLINE u64 ms_next_opening_ns(const struct ms_scheduler *s, u32 *first)
{
	u32 i, n = ms_streams(s);
	u64 least = MS_NEVER;

	*first = MS_NONE;
	if (!s->state->parked)
		return MS_NEVER;
	MS_EACH(i, n) {
		struct ms_stream *stream = ms_stream(s, i);

		if (stream->location == MS_PARKED && stream->opens_ns < least) {
			least = stream->opens_ns;
			*first = i;
		}
	}
	return least;
}

/* Another definition must do what ms_clock_reach() does; it need not be inlined. */
#ifndef MS_CLOCK_REACH
#define MS_CLOCK_REACH(s, now_ns) ms_clock_reach(s, now_ns)
#endif

/* Advances time. Heads that rate caps admit meanwhile become active in the order of time. */
MS_INLINE void ms_advance(const struct ms_scheduler *s, u64 now_ns)
{
	u32 i, n = ms_streams(s), first;

	if (s->state->parked) {
		MS_EACH(i, n) {
			u64 from_ns = ms_next_opening_ns(s, &first);

			if (first == MS_NONE || from_ns > now_ns)
				break;
			MS_CLOCK_REACH(s, from_ns);
			ms_activate(s, first, MS_OPENED);
		}
	}
	MS_CLOCK_REACH(s, now_ns);
}

/* DWCS. */

MS_INLINE void ms_window_restore(struct ms_stream *stream, const struct ms_contract *contract)
{
	stream->lost = contract->window_lost;
	stream->of = contract->window_of;
}

/* Applies rule A: a service before the deadline. */
MS_INLINE void ms_window_served(struct ms_stream *stream, const struct ms_contract *contract)
{
	if (stream->of > stream->lost) {
		stream->of--;
	} else if (stream->lost > 0) {
		stream->lost--;
		stream->of--;
	}
	if ((stream->lost == 0 && stream->of == 0) || stream->tagged)
		ms_window_restore(stream, contract);
	stream->tagged = 0;
}

/* Applies rule B `count` times: missed deadlines. */
MS_INLINE void ms_window_missed(struct ms_stream *stream, const struct ms_contract *contract,
				u64 count)
{
	u32 round;

	stream->missed += count;
	if (contract->window_of == 0)
		return;
	/*
	 * Up to four rounds: to x' = 0, where y' may be 0 too and the window is restored; to x' = 0
	 * of that window; the violations; and, if x = y, what is left of whole windows.
	 */
	MS_EACH(round, 4) {
		u64 step;

		if (count == 0)
			return;
		if (stream->lost == 0) {
			stream->of = ms_add_saturating(stream->of, count);
			stream->tagged = 1;
			stream->violations += count;
			return;
		}
		step = count < stream->lost ? count : stream->lost;
		stream->lost -= step;
		stream->of -= step;
		count -= step;
		if (stream->lost == 0 && stream->of == 0) {
			ms_window_restore(stream, contract);
			if (contract->window_lost == contract->window_of)
				ms_divide(count, contract->window_lost, contract->window_inverse,
					  &count);
		}
	}
}

/* Returns whether the window-constraint of `a` is lower (-1), equal (0) or higher (1). */
MS_INLINE int ms_window_compare(const struct ms_stream *a, const struct ms_stream *b)
{
	u64 left, right;

	if (a->lost == 0 && b->lost == 0)
		return a->of > b->of ? -1 : a->of < b->of;
	if (a->lost == 0 || b->lost == 0)
		return a->lost == 0 ? -1 : 1;
	left = (u64)a->lost * b->of;
	right = (u64)b->lost * a->of;
	if (left != right)
		return left < right ? -1 : 1;
	return a->lost < b->lost ? -1 : a->lost > b->lost;
}

/* Decisions. */

/*
 * Charges the deadlines that have passed in streams from `from` on. Returns the first stream whose
 * head must be dropped, or MS_NONE. After that drop, call again from that stream on.
 */
MS_INLINE u32 ms_late(const struct ms_scheduler *s, u64 now_ns, u32 from)
{
	u32 i, n = ms_streams(s);

	if (s->config->discipline != MS_EDF && s->config->discipline != MS_DWCS)
		return MS_NONE;
	MS_EACH(i, n) {
		struct ms_stream *stream = ms_stream(s, i);
		struct ms_contract *contract = ms_contract(s, i);
		u64 periods = 1, rest;

		if (i < from || stream->location == MS_IDLE || stream->deadline_ns > now_ns)
			continue;
		if (s->config->discipline == MS_EDF) {
			/* A late packet that is sent counts as missed when it is. */
			if (!(contract->flags & MS_DROP_LATE))
				continue;
			stream->missed++;
			return i;
		}
		if (contract->flags & MS_DROP_LATE) {
			ms_window_missed(stream, contract, 1);
			return i;
		}
		periods += ms_divide(now_ns - stream->deadline_ns, contract->period_ns,
				     contract->period_inverse, &rest);
		stream->deadline_ns += periods * contract->period_ns;
		ms_window_missed(stream, contract, periods);
	}
	return MS_NONE;
}

/* Returns whether stream `a` precedes `b`; equal streams are ordered by index elsewhere. */
MS_INLINE int ms_precedes(u32 discipline, const struct ms_stream *a,
			  const struct ms_contract *of_a, const struct ms_stream *b,
			  const struct ms_contract *of_b)
{
	int window;

	if (discipline == MS_STATIC_PRIORITY) {
		if (of_a->priority != of_b->priority)
			return of_a->priority < of_b->priority;
	} else {
		if (a->deadline_ns != b->deadline_ns)
			return a->deadline_ns < b->deadline_ns;
		if (discipline == MS_DWCS) {
			window = ms_window_compare(a, b);
			if (window)
				return window < 0;
		}
	}
	return a->head_arrival_ns < b->head_arrival_ns;
}

/* Returns the first active stream by rank. */
MS_INLINE u32 ms_first_by_rank(const struct ms_scheduler *s)
{
	u32 i, n = ms_streams(s), first = MS_NONE, discipline = s->config->discipline;

	MS_EACH(i, n) {
		if (ms_stream(s, i)->location != MS_ACTIVE)
			continue;
		if (first == MS_NONE || ms_precedes(discipline, ms_stream(s, i), ms_contract(s, i),
						    ms_stream(s, first), ms_contract(s, first)))
			first = i;
	}
	return first;
}

/* Returns the active stream of least finish among those that have started. */
MS_INLINE u32 ms_first_by_finish(const struct ms_scheduler *s)
{
	u32 i, n = ms_streams(s), first = MS_NONE;
	u64 least = 0;

	MS_EACH(i, n) {
		struct ms_stream *stream = ms_stream(s, i);
		u64 near;

		if (stream->location != MS_ACTIVE || !ms_reached(s, stream->start))
			continue;
		near = ms_near(stream->finish);
		if (first == MS_NONE || ms_near_before(near, least)) {
			first = i;
			least = near;
		}
	}
	return first;
}

/* Returns the stream that has the turn. */
MS_INLINE u32 ms_drr_first(const struct ms_scheduler *s)
{
	u32 i, n = ms_streams(s), first = MS_NONE;
	u64 least = MS_NEVER;

	MS_EACH(i, n) {
		struct ms_stream *stream = ms_stream(s, i);

		if (stream->location == MS_ACTIVE && stream->turn < least) {
			first = i;
			least = stream->turn;
		}
	}
	return first;
}

/* Gives turns for one round at most; returns the stream that is served, or MS_NONE. */
MS_INLINE u32 ms_drr_round(const struct ms_scheduler *s)
{
	u32 turn, n = ms_streams(s);

	MS_EACH(turn, n + 1) {
		u32 i = ms_drr_first(s);
		struct ms_stream *stream = ms_stream(s, i);

		if (i == MS_NONE)
			return MS_NONE;
		if (!stream->has_quantum) {
			stream->has_quantum = 1;
			stream->deficit += ms_contract(s, i)->quantum;
		}
		if ((s64)ms_wire_bytes(s, stream->head_bytes) <= stream->deficit)
			return i;
		ms_drr_join_tail(s->state, stream);
	}
	return MS_NONE;
}

/* Adds the quanta of all rounds before the first in which a stream is served. */
MS_INLINE void ms_drr_skip_rounds(const struct ms_scheduler *s)
{
	u32 i, n = ms_streams(s);
	u64 rounds = MS_NEVER;

	MS_EACH(i, n) {
		struct ms_stream *stream = ms_stream(s, i);
		struct ms_contract *contract = ms_contract(s, i);
		s64 lacking = (s64)ms_wire_bytes(s, stream->head_bytes) - stream->deficit;
		u64 needed = 1, rest;

		if (stream->location != MS_ACTIVE)
			continue;
		if (lacking > 0) {
			needed = ms_divide(lacking, contract->quantum, contract->quantum_inverse,
					   &rest);
			needed += rest > 0;
		}
		if (needed < rounds)
			rounds = needed;
	}
	MS_EACH(i, n) {
		struct ms_stream *stream = ms_stream(s, i);

		if (stream->location == MS_ACTIVE)
			stream->deficit += (rounds - 1) * ms_contract(s, i)->quantum;
	}
}

MS_INLINE u32 ms_first_by_turn(const struct ms_scheduler *s)
{
	u32 first;

	if (!s->state->active)
		return MS_NONE;
	first = ms_drr_round(s);
	if (first == MS_NONE) {
		/* Only if quanta are smaller than packets. */
		ms_drr_skip_rounds(s);
		first = ms_drr_round(s);
	}
	return first;
}

/* Another definition must do what ms_advance() does; it need not be inlined. */
#ifndef MS_ADVANCE
#define MS_ADVANCE(s, now_ns) ms_advance(s, now_ns)
#endif

/*
 * Begins a decision. Returns 0 if no packet waits: the busy period is over. Call on every
 * link-idle event.
 */
MS_INLINE int ms_begin(const struct ms_scheduler *s, u64 now_ns)
{
	MS_ADVANCE(s, now_ns);
	if (s->state->waiting)
		return 1;
	if (s->config->discipline == MS_WF2Q_PLUS)
		ms_clock_forget(s->state);
	return 0;
}

/* Returns the stream that is served next, or MS_NONE if rate caps hold back every head. */
MS_INLINE u32 ms_select(const struct ms_scheduler *s)
{
	switch (s->config->discipline) {
	case MS_DRR:
		return ms_first_by_turn(s);
	case MS_WF2Q_PLUS:
		return ms_first_by_finish(s);
	default:
		return ms_first_by_rank(s);
	}
}

/* Reports a packet at the end of the queue of stream `i`. */
MS_INLINE void ms_join(const struct ms_scheduler *s, u64 now_ns, u32 i, u64 arrival_ns, u32 bytes)
{
	struct ms_stream *stream = ms_stream(s, i);

	s->state->waiting++;
	stream->waiting++;
	if (stream->waiting == 1)
		ms_new_head(s, i, now_ns, arrival_ns, bytes, MS_ARRIVED);
}

/* Reports an arrival. Returns 0 if the packet must be dropped: its queue is full. */
MS_INLINE int ms_arrive(const struct ms_scheduler *s, u64 now_ns, u32 i, u32 bytes)
{
	struct ms_stream *stream = ms_stream(s, i);

	stream->arrivals++;
	if (stream->waiting >= ms_contract(s, i)->queue) {
		stream->dropped_full++;
		return 0;
	}
	MS_ADVANCE(s, now_ns);
	ms_join(s, now_ns, i, now_ns, bytes);
	return 1;
}

/* Streams with flows. */

MS_INLINE int ms_has_flows(const struct ms_scheduler *s, u32 i)
{
	return ms_contract(s, i)->flows.count > 0;
}

/*
 * Reports an arrival; returns its flow. Afterwards, packets of the flows that ms_overflow() returns
 * must be dropped.
 */
MS_INLINE u32 ms_arrive_in_flow(const struct ms_scheduler *s, u64 now_ns, u32 i, u32 hash,
				u32 bytes, u32 can_mark)
{
	struct ms_stream *stream = ms_stream(s, i);

	stream->arrivals++;
	return ms_flow_push(s->flows, &stream->flows, &ms_contract(s, i)->flows, now_ns, hash,
			    bytes, can_mark);
}

/*
 * Reports that the first packet of a flow was removed; `full`: it was dropped at a limit. The other
 * arguments are of the flow's next packet, if there is one.
 */
MS_INLINE void ms_left_flow(const struct ms_scheduler *s, u32 i, u32 flow, int full, u64 arrival_ns,
			    u32 bytes, u32 can_mark)
{
	struct ms_stream *stream = ms_stream(s, i);

	stream->dropped_from_longest += full;
	ms_flow_popped(s->flows, &stream->flows, flow, arrival_ns, bytes, can_mark);
}

/*
 * Returns the flow from which packets must be dropped at a limit, or MS_NONE. Stores their number;
 * call again after that.
 */
MS_INLINE u32 ms_overflow(const struct ms_scheduler *s, u32 i, u32 *count)
{
	return ms_flow_overflow(s->flows, &ms_stream(s, i)->flows, &ms_contract(s, i)->flows,
				count);
}

/* Advances time and returns 1 if a packet must be pulled to be the stream's head. */
MS_INLINE int ms_needs_head(const struct ms_scheduler *s, u64 now_ns, u32 i)
{
	if (ms_stream(s, i)->waiting)
		return 0;
	MS_ADVANCE(s, now_ns);
	return 1;
}

/*
 * Returns the flow whose first packet is removed next, or MS_NONE if no packet is left. Stores
 * whether it is delivered, marked and delivered, or dropped; after a drop, call again.
 */
MS_INLINE u32 ms_pull(const struct ms_scheduler *s, u64 now_ns, u32 i, u32 *action)
{
	struct ms_stream *stream = ms_stream(s, i);
	u32 flow = ms_flow_next(s->flows, &stream->flows, &ms_contract(s, i)->flows, now_ns,
				action);

	stream->dropped_by_aqm += *action == MS_DROP;
	return flow;
}

/*
 * Reports that the head of stream `i` departed: `sent`, or dropped because it is late. `bytes` and
 * `arrival_ns` are of the next packet, if there is one.
 */
MS_INLINE void ms_departed(const struct ms_scheduler *s, u64 now_ns, u32 i, int sent,
			   u64 arrival_ns, u32 bytes)
{
	struct ms_state *state = s->state;
	struct ms_stream *stream = ms_stream(s, i);
	struct ms_contract *contract = ms_contract(s, i);

	state->waiting--;
	stream->waiting--;
	if (sent) {
		stream->sent++;
		stream->sent_bytes += stream->head_bytes;
		if (s->config->discipline == MS_DWCS)
			ms_window_served(stream, contract);
		if (s->config->discipline == MS_EDF && now_ns >= stream->deadline_ns)
			stream->missed++;
		if (s->config->discipline == MS_DRR)
			stream->deficit -= ms_wire_bytes(s, stream->head_bytes);
		if (s->config->discipline == MS_WF2Q_PLUS) {
			stream->before = stream->finish;
			stream->before_epoch = state->epoch;
		}
		if (contract->flags & MS_CAPPED)
			ms_cap_charge(s, i, now_ns);
	} else {
		stream->dropped_late++;
	}
	if (stream->waiting) {
		ms_new_head(s, i, now_ns, arrival_ns, bytes, MS_NEXT);
	} else {
		stream->opens_ns = MS_NEVER;
		ms_move(state, stream, MS_IDLE);
	}
}

/*
 * Continues stream `i` under `s->config` in place of `old`. Call ms_advance() under `old`, then
 * this for every stream of `s->config`. Both have the same discipline and the same order of
 * streams, with the same flows; the new one may have more streams. No packet is lost, tags and
 * deadlines of heads stay, and changed windows begin anew.
 */
MS_INLINE void ms_reconfigure(const struct ms_scheduler *s, struct ms_config *old, u64 now_ns,
			      u32 i)
{
	struct ms_scheduler before = { old, s->state, s->flows };
	struct ms_stream *stream = ms_stream(s, i);
	struct ms_contract *contract = ms_contract(s, i), *was = ms_contract(&before, i);
	u64 from_ns = 0;

	if (contract->window_lost != was->window_lost || contract->window_of != was->window_of) {
		ms_window_restore(stream, contract);
		stream->tagged = 0;
	}
	if (contract->cap_bps != was->cap_bps) {
		/* The rest is in units of the old rate. */
		stream->arrival.ns += stream->arrival.rest > 0;
		stream->arrival.rest = 0;
	}
	if (stream->location == MS_IDLE)
		return;
	if (contract->flags & MS_CAPPED)
		from_ns = ms_conforms_ns(s, i);
	if (from_ns > now_ns) {
		stream->opens_ns = from_ns;
		ms_move(s->state, stream, MS_PARKED);
	} else if (stream->location == MS_PARKED) {
		ms_activate(s, i, MS_OPENED);
	}
}

/* Forgets all packets. Time goes on or starts again; the counters are kept. */
MS_INLINE void ms_reset(const struct ms_scheduler *s)
{
	struct ms_state *state = s->state;
	struct ms_u128 zero = { 0, 0 };
	u32 i;

	state->waiting = 0;
	state->active = 0;
	state->parked = 0;
	state->clock_ns = 0;
	state->clock = zero;
	state->epoch = 2;
	state->epoch_began = zero;
	ms_flows_reset(s->flows);
	MS_EACH(i, MS_STREAMS) {
		struct ms_stream *stream = ms_stream(s, i);

		stream->location = MS_IDLE;
		stream->waiting = 0;
		stream->tagged = 0;
		stream->begun = 0;
		stream->deadline_ns = 0;
		stream->opens_ns = MS_NEVER;
		stream->arrival.ns = 0;
		stream->arrival.rest = 0;
		stream->deficit = 0;
		stream->before_epoch = 0;
		ms_window_restore(stream, ms_contract(s, i));
		ms_flow_queue_reset(&stream->flows);
	}
}

#endif
