/* Measures a dequeue and an enqueue of DPDK's hierarchical scheduler, in memory.
 *
 * rte_sched STREAMS PACKETS: one subport, a pipe for each stream, 64-byte packets in the
 * best-effort traffic class, two in every pipe. Bursts of 32 are dequeued and enqueued again:
 * neither the memory pool nor the packets' contents are measured. Rates are so high that no token
 * bucket limits them. Prints one line of JSON: percentiles of eleven samples, ns a packet.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_sched.h>

#define BURST 32
#define SAMPLES 11
#define PACKET_BYTES 64

static void fail(const char *what, int status)
{
    fprintf(stderr, "rte_sched: %s failed: %d\n", what, status);
    exit(1);
}

static uint64_t number(const char *text, const char *name, uint64_t most)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0' || value == 0 || value > most) {
        fprintf(stderr, "rte_sched: %s is `%s`; it must be 1 to %" PRIu64 "\n", name, text, most);
        exit(2);
    }
    return value;
}

static struct rte_sched_port *port_of(uint32_t pipes)
{
    /* bytes/s, far above the rate of a core */
    const uint64_t rate = 12500000000ull;
    struct rte_sched_subport_profile_params subport_profile = {
        .tb_rate = rate, .tb_size = 1000000000, .tc_period = 10};
    struct rte_sched_pipe_params pipe = {
        .tb_rate = rate, .tb_size = 1000000000, .tc_period = 10, .tc_ov_weight = 1,
        .wrr_weights = {1, 1, 1, 1}};
    struct rte_sched_subport_params subport = {.n_pipes_per_subport_enabled = pipes,
                                               .pipe_profiles = &pipe,
                                               .n_pipe_profiles = 1,
                                               .n_max_pipe_profiles = 1};
    for (int class = 0; class < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; class++) {
        subport_profile.tc_rate[class] = rate;
        pipe.tc_rate[class] = rate;
        subport.qsize[class] = 64;
    }
    struct rte_sched_port_params params = {.name = "port",
                                           .socket = 0,
                                           .rate = rate,
                                           .mtu = 1522,
                                           .frame_overhead = 0,
                                           .n_subports_per_port = 1,
                                           .subport_profiles = &subport_profile,
                                           .n_subport_profiles = 1,
                                           .n_max_subport_profiles = 1,
                                           .n_pipes_per_subport = pipes};
    struct rte_sched_port *port = rte_sched_port_config(&params);
    if (port == NULL)
        fail("rte_sched_port_config", 0);
    int status = rte_sched_subport_config(port, 0, &subport, 0);
    if (status != 0)
        fail("rte_sched_subport_config", status);
    for (uint32_t at = 0; at < pipes; at++) {
        status = rte_sched_pipe_config(port, 0, at, 0);
        if (status != 0)
            fail("rte_sched_pipe_config", status);
    }
    return port;
}

/* Two packets into every pipe, pipes in random order. */
static void fill(struct rte_sched_port *port, struct rte_mempool *pool, uint32_t pipes)
{
    uint32_t *order = malloc(pipes * sizeof *order);
    if (order == NULL)
        fail("malloc", 0);
    for (uint32_t at = 0; at < pipes; at++)
        order[at] = at;
    srand(1);
    for (uint32_t at = pipes - 1; at > 0; at--) {
        uint32_t other = (uint32_t)rand() % (at + 1);
        uint32_t pipe = order[at];
        order[at] = order[other];
        order[other] = pipe;
    }
    for (uint32_t at = 0; at < 2 * pipes; at++) {
        struct rte_mbuf *packet = rte_pktmbuf_alloc(pool);
        if (packet == NULL || rte_pktmbuf_append(packet, PACKET_BYTES) == NULL)
            fail("rte_pktmbuf_alloc", 0);
        rte_sched_port_pkt_write(port, packet, 0, order[at % pipes], RTE_SCHED_TRAFFIC_CLASS_BE, 0,
                                 RTE_COLOR_GREEN);
        if (rte_sched_port_enqueue(port, &packet, 1) != 1)
            fail("rte_sched_port_enqueue", 0);
    }
    free(order);
}

static double sample(struct rte_sched_port *port, uint64_t packets)
{
    struct rte_mbuf *burst[BURST];
    struct timespec start, end;
    uint64_t done = 0, idle = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    while (done < packets) {
        int taken = rte_sched_port_dequeue(port, burst, BURST);
        if (taken <= 0 && ++idle > 100000000)
            fail("rte_sched_port_dequeue", taken);
        if (taken > 0 && rte_sched_port_enqueue(port, burst, (uint32_t)taken) != taken)
            fail("rte_sched_port_enqueue", taken);
        done += (uint64_t)taken;
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
    if (count != 3) {
        fprintf(stderr, "usage: rte_sched STREAMS PACKETS (streams: a power of two)\n");
        return 2;
    }
    uint32_t pipes = (uint32_t)number(arguments[1], "STREAMS", 1 << 20);
    uint64_t packets = number(arguments[2], "PACKETS", 1ull << 40);
    if ((pipes & (pipes - 1)) != 0) {
        fprintf(stderr, "rte_sched: STREAMS is %" PRIu32 "; it must be a power of two\n", pipes);
        return 2;
    }
    char *eal[] = {"rte_sched", "--no-huge", "--no-pci", "-m", "2048", "--no-telemetry",
                   "--log-level=error"};
    int status = rte_eal_init(sizeof eal / sizeof eal[0], eal);
    if (status < 0)
        fail("rte_eal_init", status);
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create("packets", 2 * pipes + 64, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (pool == NULL)
        fail("rte_pktmbuf_pool_create", 0);
    struct rte_sched_port *port = port_of(pipes);
    fill(port, pool, pipes);
    sample(port, packets);
    double samples[SAMPLES];
    for (int at = 0; at < SAMPLES; at++)
        samples[at] = sample(port, packets);
    qsort(samples, SAMPLES, sizeof samples[0], ascending);
    printf("{\"work\":\"packet\",\"structure\":\"rte_sched\",\"streams\":%" PRIu32
           ",\"missed_percent\":0,\"misses\":0.0,\"ns\":%.1f,\"tenth_ns\":%.1f,"
           "\"least_ns\":%.1f}\n",
           pipes, samples[SAMPLES / 2], samples[SAMPLES / 10], samples[0]);
    rte_sched_port_free(port);
    rte_eal_cleanup();
    return 0;
}
