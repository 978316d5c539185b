/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The scheduler as functions that Rust calls: see `src/native.rs`. */
#include "scheduler.h"

#include <stddef.h>

/* The counters and the deadline of a stream. */
struct ms_view {
	u64 deadline_ns, missed, violations;
};

size_t ms_native_config_bytes(void)
{
	return sizeof(struct ms_config);
}

size_t ms_native_state_bytes(void)
{
	return sizeof(struct ms_state);
}

void ms_native_reset(struct ms_config *config, struct ms_state *state)
{
	struct ms_scheduler s = { config, state };

	ms_reset(&s);
}

int ms_native_arrive(struct ms_config *config, struct ms_state *state, u64 now_ns, u32 i,
		     u32 bytes)
{
	struct ms_scheduler s = { config, state };

	return ms_arrive(&s, now_ns, i, bytes);
}

int ms_native_begin(struct ms_config *config, struct ms_state *state, u64 now_ns)
{
	struct ms_scheduler s = { config, state };

	return ms_begin(&s, now_ns);
}

u32 ms_native_late(struct ms_config *config, struct ms_state *state, u64 now_ns, u32 from)
{
	struct ms_scheduler s = { config, state };

	return ms_late(&s, now_ns, from);
}

u32 ms_native_select(struct ms_config *config, struct ms_state *state)
{
	struct ms_scheduler s = { config, state };

	return ms_select(&s);
}

void ms_native_departed(struct ms_config *config, struct ms_state *state, u64 now_ns, u32 i,
			int sent, u64 arrival_ns, u32 bytes)
{
	struct ms_scheduler s = { config, state };

	ms_departed(&s, now_ns, i, sent, arrival_ns, bytes);
}

void ms_native_reconfigure(struct ms_config *config, struct ms_state *state, struct ms_config *old,
			   u64 now_ns)
{
	struct ms_scheduler s = { config, state };

	ms_reconfigure(&s, old, now_ns);
}

u64 ms_native_next_opening_ns(struct ms_config *config, struct ms_state *state)
{
	struct ms_scheduler s = { config, state };
	u32 first;

	return ms_next_opening_ns(&s, &first);
}

u64 ms_native_transmission_ns(struct ms_config *config, u32 bytes)
{
	struct ms_scheduler s = { config, 0 };

	return ms_transmission_ns(&s, bytes);
}

void ms_native_view(struct ms_config *config, struct ms_state *state, u32 i, struct ms_view *view)
{
	struct ms_scheduler s = { config, state };
	struct ms_stream *stream = ms_stream(&s, i);

	view->deadline_ns = stream->deadline_ns;
	view->missed = stream->missed;
	view->violations = stream->violations;
}
