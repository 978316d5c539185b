/* Forwards packets from port 0 to port 1 through the stage, for SECONDS, and prints what each
 * stream received and sent. With a port 2, sends there what port 1 receives: a port of `net_ring`
 * receives what was sent to it, so that it connects two stages of a pipeline.
 *
 * forward EAL-OPTIONS -- DISCIPLINE RATE WEIGHT... SECONDS. RATE is in bit/s. The low bits of the
 * last byte of the IPv4 source address select the stream; other packets are of stream 0.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>

#include "ms_dpdk.h"

#define BURST 32
#define MOST_STREAMS 64

static void fail(const char *what)
{
    fprintf(stderr, "forward: %s\n", what);
    exit(1);
}

static uint32_t stream_of(const struct rte_mbuf *packet, uint32_t streams)
{
    const struct rte_ether_hdr *ether = rte_pktmbuf_mtod(packet, const struct rte_ether_hdr *);
    const uint32_t least = sizeof(struct rte_ether_hdr) + sizeof(struct rte_ipv4_hdr);
    if (rte_pktmbuf_data_len(packet) < least ||
        ether->ether_type != rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4))
        return 0;
    const struct rte_ipv4_hdr *ip = (const struct rte_ipv4_hdr *)(ether + 1);
    return (rte_be_to_cpu_32(ip->src_addr) & 0xff) % streams;
}

static void start(uint16_t port, struct rte_mempool *pool)
{
    const struct rte_eth_conf conf = {0};
    if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
        rte_eth_rx_queue_setup(port, 0, 512, rte_eth_dev_socket_id(port), NULL, pool) != 0 ||
        rte_eth_tx_queue_setup(port, 0, 512, rte_eth_dev_socket_id(port), NULL) != 0 ||
        rte_eth_dev_start(port) != 0)
        fail("a port does not start");
}

int main(int count, char **arguments)
{
    const int parsed = rte_eal_init(count, arguments);
    if (parsed < 0)
        fail("rte_eal_init");
    count -= parsed + 1;
    arguments += parsed + 1;
    const int streams = count - 3;
    if (streams < 1 || streams > MOST_STREAMS || rte_eth_dev_count_avail() < 2) {
        fprintf(stderr, "usage: forward EAL-OPTIONS -- DISCIPLINE RATE WEIGHT... SECONDS, with two "
                        "ports\n");
        return 2;
    }
    struct ms_options options;
    struct ms_contract contracts[MOST_STREAMS];
    if (ms_options_init(&options, sizeof options) != MS_OK)
        fail("ms_options_init");
    options.discipline = arguments[0];
    options.link_rate_bps = strtoull(arguments[1], NULL, 10);
    options.link_overhead_bytes = 24;
    for (int at = 0; at < streams; at++) {
        if (ms_contract_init(&contracts[at], sizeof contracts[at]) != MS_OK)
            fail("ms_contract_init");
        contracts[at].weight = (uint32_t)strtoul(arguments[2 + at], NULL, 10);
        contracts[at].queue_packets = 256;
    }
    char message[MS_MESSAGE_BYTES];
    struct ms_dpdk_port *stage =
        ms_dpdk_port_new(&options, contracts, (size_t)streams, message);
    if (stage == NULL)
        fail(message);
    struct rte_mempool *pool =
        rte_pktmbuf_pool_create("packets", 32767, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (pool == NULL)
        fail("rte_pktmbuf_pool_create");
    const uint16_t ports = rte_eth_dev_count_avail();
    for (uint16_t port = 0; port < ports && port < 3; port++)
        start(port, pool);

    const uint64_t seconds = strtoull(arguments[count - 1], NULL, 10);
    const uint64_t end = rte_rdtsc() + seconds * rte_get_tsc_hz();
    uint64_t forwarded = 0;
    while (rte_rdtsc() < end) {
        struct rte_mbuf *packets[BURST];
        const uint16_t received = rte_eth_rx_burst(0, 0, packets, BURST);
        for (uint16_t at = 0; at < received; at++)
            rte_mbuf_sched_queue_set(packets[at], stream_of(packets[at], (uint32_t)streams));
        if (received > 0)
            ms_dpdk_port_enqueue(stage, packets, received);
        const uint32_t sending = ms_dpdk_port_dequeue(stage, packets, BURST);
        const uint16_t sent = rte_eth_tx_burst(1, 0, packets, (uint16_t)sending);
        rte_pktmbuf_free_bulk(&packets[sent], sending - sent);
        if (ports > 2) {
            const uint16_t passing = rte_eth_rx_burst(1, 0, packets, BURST);
            const uint16_t passed = rte_eth_tx_burst(2, 0, packets, passing);
            rte_pktmbuf_free_bulk(&packets[passed], passing - passed);
            forwarded += passed;
        }
    }
    for (int at = 0; at < streams; at++) {
        struct ms_counters of;
        if (ms_stream_counters(ms_dpdk_port_scheduler(stage), (uint32_t)at, &of) != MS_OK)
            fail("ms_stream_counters");
        printf("stream %d: %" PRIu64 " arrived, %" PRIu64 " sent, %.2f Mbit/s, %" PRIu64
               " dropped\n",
               at, of.arrived, of.sent, (double)of.sent_bytes * 8e-6 / (double)seconds,
               of.dropped_full);
    }
    if (ports > 2)
        printf("port 2: %" PRIu64 " sent\n", forwarded);
    ms_dpdk_port_free(stage);
    rte_eal_cleanup();
    return 0;
}
