/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The scheduler as functions that Rust calls: see `src/native.rs`. */
#include "scheduler.h"

#include <stddef.h>

/* A frame that the interpreter of filters reads. */
struct ms_frame {
	const unsigned char *bytes;
	u32 length;
};

static int ms_read(void *packet, u64 at, u32 size, u32 *value)
{
	const struct ms_frame *frame = packet;
	u32 i, count = size == 0x10 ? 1 : size == 0x08 ? 2 : 4;

	if (at + count > frame->length)
		return 0;
	*value = 0;
	for (i = 0; i < count; i++)
		*value = *value << 8 | frame->bytes[at + i];
	return 1;
}

#include "filter.h"

/* Returns whether a checked program of `count` instructions accepts a frame. */
int ms_native_filter(const struct ms_instruction *program, u32 count, const unsigned char *bytes,
		     u32 length)
{
	struct ms_frame frame = { bytes, length };
	struct ms_filter_state state = { 0 };

	while (state.at < count && ms_filter_step(&state, &program[state.at], &frame, length))
		;
	return state.accepts;
}

/* The counters and the deadline of a stream. */
struct ms_view {
	u64 deadline_ns, missed, violations;
};

size_t ms_native_config_bytes(void)
{
	return sizeof(struct ms_config);
}

/* The state: the scheduler's and that of the flows. */
struct ms_native {
	struct ms_state state;
	struct ms_flows flows;
};

static struct ms_scheduler scheduler(struct ms_config *config, struct ms_native *native)
{
	struct ms_scheduler s = { config, &native->state, &native->flows };

	return s;
}

size_t ms_native_state_bytes(void)
{
	return sizeof(struct ms_native);
}

void ms_native_reset(struct ms_config *config, struct ms_native *state)
{
	struct ms_scheduler s = scheduler(config, state);

	ms_reset(&s);
}

int ms_native_arrive(struct ms_config *config, struct ms_native *state, u64 now_ns, u32 i,
		     u32 bytes)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_arrive(&s, now_ns, i, bytes);
}

int ms_native_begin(struct ms_config *config, struct ms_native *state, u64 now_ns)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_begin(&s, now_ns);
}

u32 ms_native_late(struct ms_config *config, struct ms_native *state, u64 now_ns, u32 from)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_late(&s, now_ns, from);
}

u32 ms_native_select(struct ms_config *config, struct ms_native *state)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_select(&s);
}

void ms_native_departed(struct ms_config *config, struct ms_native *state, u64 now_ns, u32 i,
			int sent, u64 arrival_ns, u32 bytes)
{
	struct ms_scheduler s = scheduler(config, state);

	ms_departed(&s, now_ns, i, sent, arrival_ns, bytes);
}

u32 ms_native_arrive_in_flow(struct ms_config *config, struct ms_native *state, u64 now_ns, u32 i,
			     u32 hash, u32 bytes, u32 can_mark)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_arrive_in_flow(&s, now_ns, i, hash, bytes, can_mark);
}

u32 ms_native_overflow(struct ms_config *config, struct ms_native *state, u32 i, u32 *count)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_overflow(&s, i, count);
}

void ms_native_left_flow(struct ms_config *config, struct ms_native *state, u32 i, u32 flow,
			 int full, u64 arrival_ns, u32 bytes, u32 can_mark)
{
	struct ms_scheduler s = scheduler(config, state);

	ms_left_flow(&s, i, flow, full, arrival_ns, bytes, can_mark);
}

int ms_native_needs_head(struct ms_config *config, struct ms_native *state, u64 now_ns, u32 i)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_needs_head(&s, now_ns, i);
}

u32 ms_native_pull(struct ms_config *config, struct ms_native *state, u64 now_ns, u32 i,
		   u32 *action)
{
	struct ms_scheduler s = scheduler(config, state);

	return ms_pull(&s, now_ns, i, action);
}

void ms_native_join(struct ms_config *config, struct ms_native *state, u64 now_ns, u32 i,
		    u64 arrival_ns, u32 bytes)
{
	struct ms_scheduler s = scheduler(config, state);

	ms_join(&s, now_ns, i, arrival_ns, bytes);
}

void ms_native_reconfigure(struct ms_config *config, struct ms_native *state, struct ms_config *old,
			   u64 now_ns)
{
	struct ms_scheduler s = scheduler(config, state), before = scheduler(old, state);
	u32 i;

	ms_advance(&before, now_ns);
	for (i = 0; i < ms_streams(&s); i++)
		ms_reconfigure(&s, old, now_ns, i);
}

u64 ms_native_next_opening_ns(struct ms_config *config, struct ms_native *state)
{
	struct ms_scheduler s = scheduler(config, state);
	u32 first;

	return ms_next_opening_ns(&s, &first);
}

u64 ms_native_transmission_ns(struct ms_config *config, u32 bytes)
{
	struct ms_scheduler s = { config, 0, 0 };

	return ms_transmission_ns(&s, bytes);
}

void ms_native_view(struct ms_config *config, struct ms_native *state, u32 i, struct ms_view *view)
{
	struct ms_scheduler s = scheduler(config, state);
	struct ms_stream *stream = ms_stream(&s, i);

	view->deadline_ns = stream->deadline_ns;
	view->missed = stream->missed;
	view->violations = stream->violations;
}
