/* Schedules two streams on a link of 10 Mbit/s and prints when each packet is sent.
 *
 * The clock of this program is simulated. A live program passes a monotonic clock instead.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <millstream.h>

#define RATE_BPS UINT64_C(10000000)

static void check(ms_status status, const char *call)
{
    if (status < 0) {
        fprintf(stderr, "%s: %s\n", call, ms_error_text(status));
        exit(1);
    }
}

int main(void)
{
    struct ms_options options;
    struct ms_contract streams[2];
    check(ms_options_init(&options, sizeof options), "ms_options_init");
    for (int at = 0; at < 2; at++)
        check(ms_contract_init(&streams[at], sizeof streams[at]), "ms_contract_init");
    options.discipline = "wf2q+";
    options.link_rate_bps = RATE_BPS;
    options.packet_limit = 100;
    streams[0].weight = 3;
    streams[1].weight = 1;
    streams[1].queue_packets = 4;

    struct ms_scheduler *scheduler;
    char message[MS_MESSAGE_BYTES];
    if (ms_scheduler_new(&options, streams, 2, &scheduler, message, sizeof message) != MS_OK) {
        fprintf(stderr, "ms_scheduler_new: %s\n", message);
        return 1;
    }

    /* Six packets of each stream arrive at once. The handle of a packet can be its address. */
    static char packets[2][6];
    for (uint32_t stream = 0; stream < 2; stream++) {
        for (int at = 0; at < 6; at++) {
            uint64_t handle = (uint64_t)(uintptr_t)&packets[stream][at];
            ms_status status = ms_enqueue(scheduler, stream, handle, 1250, 0);
            check(status, "ms_enqueue");
            if (status == MS_DROPPED_FULL)
                printf("stream %" PRIu32 ": packet %d is dropped and stays here\n", stream, at);
        }
    }

    uint64_t now_ns = 0;
    while (ms_backlog(scheduler) > 0) {
        struct ms_decision sent;
        ms_status status = ms_dequeue(scheduler, now_ns, &sent);
        check(status, "ms_dequeue");
        if (status == MS_EMPTY) {
            /* Rate caps hold back all packets. */
            if (ms_next_eligible(scheduler, &now_ns) != MS_OK)
                break;
            continue;
        }
        printf("%7" PRIu64 " us: stream %" PRIu32 ", packet %" PRIu64 "\n", now_ns / 1000,
               sent.stream, sent.packet);
        /* The link is free after the transmission. */
        now_ns += sent.bytes * UINT64_C(8000000000) / RATE_BPS;
    }

    struct ms_counters counters;
    check(ms_stream_counters(scheduler, 1, &counters), "ms_stream_counters");
    printf("stream 1: %" PRIu64 " sent, %" PRIu64 " dropped\n", counters.sent,
           counters.dropped_full);
    ms_scheduler_free(scheduler);
    return 0;
}
