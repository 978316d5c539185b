/* Measures a dequeue and an enqueue of the stage as benches/peers/rte_sched.c does: 64-byte
 * packets, two in every stream, bursts of 32 that are dequeued and enqueued again.
 *
 * bench DISCIPLINE STREAMS PACKETS [BITS_PER_SECOND]: prints percentiles of eleven samples, ns a
 * packet, as one line of JSON. By default the link has the greatest rate.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_eal.h>

#include "ms_dpdk.h"

#define BURST 32
#define SAMPLES 11
#define PACKET_BYTES 64

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static struct ms_dpdk_port *port_of(const char *discipline, uint32_t count, uint64_t rate_bps)
{
    struct ms_options options;
    struct ms_contract *streams = calloc(count, sizeof *streams);
    char message[MS_MESSAGE_BYTES];
    if (streams == NULL || ms_options_init(&options, sizeof options) != MS_OK)
        fail("initialisation");
    for (uint32_t at = 0; at < count; at++) {
        if (ms_contract_init(&streams[at], sizeof streams[at]) != MS_OK)
            fail("ms_contract_init");
        streams[at].period_ns = 1000000;
    }
    options.discipline = discipline;
    options.link_rate_bps = rate_bps;
    options.packet_limit = 2 * count + BURST;
    struct ms_dpdk_port *port = ms_dpdk_port_new(&options, streams, count, message);
    if (port == NULL)
        fail(message);
    free(streams);
    return port;
}

/* Two packets into every stream, streams in random order. */
static void fill(struct ms_dpdk_port *port, struct rte_mempool *pool, uint32_t count)
{
    uint32_t *order = malloc(count * sizeof *order);
    if (order == NULL)
        fail("malloc");
    for (uint32_t at = 0; at < count; at++)
        order[at] = at;
    srand(1);
    for (uint32_t at = count - 1; at > 0; at--) {
        uint32_t other = (uint32_t)rand() % (at + 1);
        uint32_t stream = order[at];
        order[at] = order[other];
        order[other] = stream;
    }
    for (uint32_t at = 0; at < 2 * count; at++) {
        struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);
        if (packet == NULL || rte_pktmbuf_append(packet, PACKET_BYTES) == NULL)
            fail("rte_pktmbuf_alloc");
        rte_mbuf_sched_queue_set(packet, order[at % count]);
        if (ms_dpdk_port_enqueue(port, &packet, 1) != 1)
            fail("ms_dpdk_port_enqueue");
    }
    free(order);
}

static double sample(struct ms_dpdk_port *port, uint64_t packets)
{
    struct rte_mbuf *burst[BURST];
    struct timespec start, end;
    uint64_t done = 0, idle = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (done < packets) {
        uint32_t taken = ms_dpdk_port_dequeue(port, burst, BURST);
        if (taken == 0 && ++idle > 100000000)
            fail("ms_dpdk_port_dequeue");
        if (taken > 0 && ms_dpdk_port_enqueue(port, burst, taken) != taken)
            fail("ms_dpdk_port_enqueue");
        done += taken;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    return ns / (double)done;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments)
{
    const long long rate_bps = count > 4 ? atoll(arguments[4]) : MS_MOST_RATE_BPS;
    if (count < 4 || count > 5 || atoll(arguments[2]) <= 0 || atoll(arguments[3]) <= 0 ||
        rate_bps <= 0) {
        fprintf(stderr, "usage: bench DISCIPLINE STREAMS PACKETS [BITS_PER_SECOND]\n");
        return 2;
    }
    const uint32_t streams = (uint32_t)atoll(arguments[2]);
    const uint64_t packets = (uint64_t)atoll(arguments[3]);
    char *eal[] = {"bench", "--no-huge", "--no-pci", "-m", "2048", "--no-telemetry",
                   "--log-level=error"};
    if (rte_eal_init(sizeof eal / sizeof eal[0], eal) < 0)
        fail("rte_eal_init");
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create("packets", 2 * streams + 64, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (pool == NULL)
        fail("rte_pktmbuf_pool_create");
    struct ms_dpdk_port *port = port_of(arguments[1], streams, (uint64_t)rate_bps);
    fill(port, pool, streams);
    sample(port, packets);
    double samples[SAMPLES];
    for (int at = 0; at < SAMPLES; at++)
        samples[at] = sample(port, packets);
    qsort(samples, SAMPLES, sizeof samples[0], ascending);
    printf("{\"work\":\"packet\",\"structure\":\"millstream %s\",\"streams\":%" PRIu32
           ",\"ns\":%.1f,\"tenth_ns\":%.1f,\"least_ns\":%.1f}\n",
           arguments[1], streams, samples[SAMPLES / 2], samples[SAMPLES / 10], samples[0]);
    ms_dpdk_port_free(port);
    const unsigned int lost = rte_mempool_in_use_count(pool);
    if (lost > 0) {
        fprintf(stderr, "bench: %u packets were not freed\n", lost);
        return 1;
    }
    rte_eal_cleanup();
    return 0;
}
