// FQ-CoDel in C, written from RFC 8290 and RFC 8289, with the workload of ../flows.rs: the cost of
// a push and a pull, by the number of flows. Each flow has four packets waiting; packets wait for
// less than the target.
//
// As in kernels, a hash selects a bucket directly, packets are linked buffers, and the root of the
// control law is an estimate that one step of Newton's method improves.
//
// Usage: fq_codel FLOWS [PACKETS]. Prints ns per packet.

#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BUCKETS = 1024, QUANTUM = 1514, LIMIT = 10240, WAITING = 4 };
static const uint64_t TARGET = 5000000, INTERVAL = 100000000;

struct packet {
    struct packet *next;
    uint64_t enqueued;
    uint32_t bytes;
    uint64_t number;
};

struct flow {
    struct packet *head, *tail;
    struct flow *next; // in the list of new or old flows
    int32_t deficit;
    uint32_t backlog;
    int listed;
    // CoDel
    uint32_t count, last_count;
    uint32_t root; // 1/sqrt(count), 32 bits of fraction
    int dropping;
    uint64_t first_above, drop_next;
};

struct list {
    struct flow *head, *tail;
};

static struct flow flows[BUCKETS];
static struct list new_flows, old_flows;
static struct packet *pool;
static uint32_t packets, largest = 1514;
static uint64_t drops, waiting_bytes;

static void append(struct list *list, struct flow *flow)
{
    flow->next = NULL;
    if (list->tail)
        list->tail->next = flow;
    else
        list->head = flow;
    list->tail = flow;
}

static struct flow *take(struct list *list)
{
    struct flow *flow = list->head;
    list->head = flow->next;
    if (!list->head)
        list->tail = NULL;
    return flow;
}

static struct packet *take_packet(struct flow *flow)
{
    struct packet *packet = flow->head;
    if (packet) {
        flow->head = packet->next;
        flow->backlog -= packet->bytes;
        waiting_bytes -= packet->bytes;
        packets--;
    }
    return packet;
}

static void release(struct packet *packet)
{
    packet->next = pool;
    pool = packet;
}

static void drop_from_longest(void)
{
    struct flow *longest = flows;
    for (int at = 1; at < BUCKETS; at++)
        if (flows[at].backlog > longest->backlog)
            longest = &flows[at];
    release(take_packet(longest));
    drops++;
}

static void push(uint32_t hash, struct packet *packet, uint64_t now)
{
    struct flow *flow = &flows[hash % BUCKETS];
    packet->enqueued = now;
    packet->next = NULL;
    if (flow->head)
        flow->tail->next = packet;
    else
        flow->head = packet;
    flow->tail = packet;
    flow->backlog += packet->bytes;
    waiting_bytes += packet->bytes;
    if (!flow->listed) {
        flow->listed = 1;
        flow->deficit = QUANTUM;
        append(&new_flows, flow);
    }
    if (++packets > LIMIT)
        drop_from_longest();
}

static void newton_step(struct flow *flow)
{
    uint64_t root = flow->root, square = (root * root) >> 32;
    uint64_t value = (3ULL << 32) - flow->count * square;
    flow->root = (uint32_t)(((value >> 2) * root) >> (32 - 2 + 1));
}

static uint64_t control_law(uint64_t from, const struct flow *flow)
{
    return from + ((INTERVAL * flow->root) >> 32);
}

static int should_drop(struct flow *flow, const struct packet *packet, uint64_t now)
{
    if (!packet || now - packet->enqueued < TARGET || waiting_bytes <= largest) {
        flow->first_above = 0;
        return 0;
    }
    if (!flow->first_above) {
        flow->first_above = now + INTERVAL;
        return 0;
    }
    return now >= flow->first_above;
}

static struct packet *codel(struct flow *flow, uint64_t now)
{
    struct packet *packet = take_packet(flow);
    int drop = should_drop(flow, packet, now);
    if (!packet) {
        flow->dropping = 0;
        return NULL;
    }
    if (flow->dropping) {
        if (!drop)
            flow->dropping = 0;
        while (flow->dropping && now >= flow->drop_next) {
            release(packet);
            drops++;
            flow->count++;
            newton_step(flow);
            packet = take_packet(flow);
            if (!should_drop(flow, packet, now))
                flow->dropping = 0;
            else
                flow->drop_next = control_law(flow->drop_next, flow);
        }
    } else if (drop) {
        release(packet);
        drops++;
        packet = take_packet(flow);
        should_drop(flow, packet, now);
        flow->dropping = 1;
        uint32_t delta = flow->count - flow->last_count;
        if (delta > 1 && now - flow->drop_next < 16 * INTERVAL) {
            flow->count = delta;
            newton_step(flow);
        } else {
            flow->count = 1;
            flow->root = UINT32_MAX;
        }
        flow->last_count = flow->count;
        flow->drop_next = control_law(now, flow);
    }
    return packet;
}

static struct packet *pull(uint64_t now)
{
    for (;;) {
        struct list *list = new_flows.head ? &new_flows : &old_flows;
        struct flow *flow = list->head;
        if (!flow)
            return NULL;
        if (flow->deficit <= 0) {
            flow->deficit += QUANTUM;
            append(&old_flows, take(list));
            continue;
        }
        struct packet *packet = codel(flow, now);
        if (packet) {
            flow->deficit -= (int32_t)packet->bytes;
            return packet;
        }
        take(list);
        if (list == &new_flows && old_flows.head)
            append(&old_flows, flow);
        else
            flow->listed = 0;
    }
}

static uint32_t hash_of(uint32_t flow)
{
    return flow * 0x9e3779b1u;
}

static void arrive(uint32_t flow, uint64_t number, uint64_t now)
{
    struct packet *packet = pool;
    pool = packet->next;
    packet->bytes = 1000 + number % 500;
    packet->number = number;
    push(hash_of(flow), packet, now);
}

int main(int argc, char **argv)
{
    uint32_t count = argc > 1 ? (uint32_t)atoi(argv[1]) : 1024;
    uint64_t most = argc > 2 ? strtoull(argv[2], NULL, 10) : 20000000;
    if (count < 1 || count > LIMIT / WAITING) {
        fprintf(stderr, "usage: fq_codel FLOWS [PACKETS]\n");
        return 2;
    }
    struct packet *all = calloc(LIMIT + 2, sizeof *all);
    if (!all)
        return 1;
    for (int at = 0; at < LIMIT + 2; at++)
        release(&all[at]);
    uint64_t number = 0, now = 0, sum = 0;
    for (uint32_t turn = 0; turn < WAITING; turn++)
        for (uint32_t flow = 0; flow < count; flow++)
            arrive(flow, number++, now);
    struct timespec begin, end;
    uint32_t flow = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t at = 0; at < most; at++) {
        now += 1000;
        struct packet *packet = pull(now);
        sum += packet->number;
        release(packet);
        flow = (flow + 7) % count;
        arrive(flow, number++, now);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double ns = (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec);
    printf("%.2f ns a packet, %lu dropped, checksum %lu\n", ns / (double)most,
           (unsigned long)drops, (unsigned long)sum);
    return 0;
}
