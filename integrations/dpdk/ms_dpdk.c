#include "ms_dpdk.h"

#include <rte_cycles.h>
#include <rte_malloc.h>

/* The most time that is made up for, ns. */
#define CATCH_UP_NS UINT64_C(1000000)

struct ms_dpdk_port {
    struct ms_scheduler *scheduler;
    uint64_t rate_bps;
    uint32_t overhead_bytes;
    uint64_t start_cycles;
    /* Nanoseconds a cycle, times 2^32. */
    uint64_t ns_per_cycle;
    /* When the link has sent all dequeued packets, ns. */
    uint64_t free_ns;
};

static uint64_t now_ns(const struct ms_dpdk_port *port)
{
    const uint64_t cycles = rte_rdtsc() - port->start_cycles;
    return (uint64_t)((unsigned __int128)cycles * port->ns_per_cycle >> 32);
}

struct ms_dpdk_port *ms_dpdk_port_new(const struct ms_options *options,
                                      const struct ms_contract *streams, size_t count,
                                      char *message)
{
    struct ms_dpdk_port *port = rte_zmalloc("ms_dpdk_port", sizeof *port, RTE_CACHE_LINE_SIZE);
    message[0] = '\0';
    if (port == NULL)
        return NULL;
    const ms_status status =
        ms_scheduler_new(options, streams, count, &port->scheduler, message, MS_MESSAGE_BYTES);
    if (status != MS_OK) {
        rte_free(port);
        return NULL;
    }
    port->rate_bps = options->link_rate_bps;
    port->overhead_bytes = options->link_overhead_bytes;
    port->start_cycles = rte_rdtsc();
    port->ns_per_cycle = (UINT64_C(1000000000) << 32) / rte_get_tsc_hz();
    return port;
}

static struct rte_mbuf *packet_of(uint64_t handle)
{
    return (struct rte_mbuf *)(uintptr_t)handle;
}

static void free_drops(struct ms_dpdk_port *port)
{
    struct ms_decision drops[MS_DPDK_BURST];
    size_t count;
    while (ms_take_drops(port->scheduler, drops, MS_DPDK_BURST, &count) == MS_OK && count > 0) {
        for (size_t at = 0; at < count; at++)
            rte_pktmbuf_free(packet_of(drops[at].handle));
    }
}

void ms_dpdk_port_free(struct ms_dpdk_port *port)
{
    if (port == NULL)
        return;
    /* Stopped streams and rate caps would keep their packets: time passes until none waits. */
    const size_t streams = ms_streams(port->scheduler);
    uint64_t time_ns = now_ns(port);
    for (uint32_t stream = 0; stream < streams; stream++) {
        ms_set_eligible(port->scheduler, stream, 1, time_ns);
        ms_add_credits(port->scheduler, stream, UINT32_MAX, time_ns);
    }
    while (ms_backlog(port->scheduler) > 0) {
        struct ms_decision sent;
        const ms_status status = ms_dequeue(port->scheduler, time_ns, &sent);
        free_drops(port);
        if (status == MS_OK)
            rte_pktmbuf_free(packet_of(sent.handle));
        else if (ms_next_eligible(port->scheduler, &time_ns) != MS_OK)
            break;
    }
    ms_scheduler_free(port->scheduler);
    rte_free(port);
}

uint32_t ms_dpdk_port_enqueue(struct ms_dpdk_port *port, struct rte_mbuf **packets,
                              uint32_t count)
{
    struct ms_packet arrivals[MS_DPDK_BURST];
    const size_t streams = ms_streams(port->scheduler);
    size_t known = 0, refused;
    count = RTE_MIN(count, (uint32_t)MS_DPDK_BURST);
    for (uint32_t at = 0; at < count; at++) {
        struct rte_mbuf *packet = packets[at];
        const uint32_t stream = rte_mbuf_sched_queue_get(packet);
        if (stream >= streams) {
            rte_pktmbuf_free(packet);
            continue;
        }
        arrivals[known++] = (struct ms_packet){.handle = (uint64_t)(uintptr_t)packet,
                                               .stream = stream,
                                               .bytes = rte_pktmbuf_pkt_len(packet),
                                               .flow_hash = packet->hash.rss};
    }
    if (ms_enqueue_burst(port->scheduler, arrivals, known, now_ns(port), &refused) != MS_OK)
        refused = known;
    for (size_t at = 0; at < refused; at++)
        rte_pktmbuf_free(packet_of(arrivals[at].handle));
    free_drops(port);
    return (uint32_t)(known - refused);
}

uint32_t ms_dpdk_port_dequeue(struct ms_dpdk_port *port, struct rte_mbuf **packets,
                              uint32_t count)
{
    struct ms_decision decisions[MS_DPDK_BURST];
    size_t sent;
    const uint64_t time_ns = now_ns(port);
    if (time_ns < port->free_ns)
        return 0;
    count = RTE_MIN(count, (uint32_t)MS_DPDK_BURST);
    if (ms_dequeue_burst(port->scheduler, time_ns, decisions, count, &sent) != MS_OK)
        return 0;
    uint64_t bytes = 0;
    for (size_t at = 0; at < sent; at++) {
        packets[at] = packet_of(decisions[at].handle);
        bytes += decisions[at].bytes + port->overhead_bytes;
    }
    /* Time that was lost to a late call is made up for, so that the rate is that of the link. */
    const uint64_t earliest_ns = time_ns - RTE_MIN(time_ns, CATCH_UP_NS);
    port->free_ns =
        RTE_MAX(port->free_ns, earliest_ns) + bytes * UINT64_C(8000000000) / port->rate_bps;
    if (ms_pending_drops(port->scheduler) > 0)
        free_drops(port);
    return (uint32_t)sent;
}

struct ms_scheduler *ms_dpdk_port_scheduler(struct ms_dpdk_port *port)
{
    return port->scheduler;
}
