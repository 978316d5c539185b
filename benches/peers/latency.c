// Measures the delay of packets from one interface to another:
// latency INTERFACE DESTINATION-MAC SOURCE-MAC NAMESPACE INTERFACE PACKETS-PER-SECOND SECONDS
//
// Sends the 60-byte frames of frame.h, evenly spaced. Every 64th is a probe to UDP port 7777 with
// its time of sending. The second interface is in the given network namespace, where the kernel
// stamps received probes. After a pause of the sender late frames are skipped, so that no burst
// follows. Prints a line: frames sent, probes sent, probes received, and in ns the median, the
// 90th, 99th and 99.9th percentile and the maximum.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sched.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "frame.h"

enum { PROBE_EVERY = 64, PORT = 7777, STAMP_AT = 42, MAX_LATE = 8 };

static int bound(const char *interface, int protocol) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol)};
    address.sll_ifindex = (int)if_nametoindex(interface);
    if (fd < 0 || address.sll_ifindex == 0) fail(interface);
    if (protocol != 0) {
        struct sock_filter only[] = {
            {BPF_LD | BPF_H | BPF_ABS, 0, 0, 12},  {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, ETH_P_IP},
            {BPF_LD | BPF_H | BPF_ABS, 0, 0, PORT_AT}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PORT},
            {BPF_RET | BPF_K, 0, 0, BYTES},        {BPF_RET | BPF_K, 0, 0, 0},
        };
        struct sock_fprog program = {6, only};
        int on = 1, room = 8 << 20;
        if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0)
            fail("socket");
    } else {
        int on = 1;
        if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) < 0) fail("socket");
    }
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail(interface);
    return fd;
}

static uint64_t *delays;
static size_t received;

static void receive(int fd, size_t most) {
    for (;;) {
        unsigned char frame[BYTES];
        char control[128];
        struct iovec vector = {frame, sizeof frame};
        struct msghdr message = {
            .msg_iov = &vector, .msg_iovlen = 1,
            .msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &message, 0) < BYTES) return;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (header == NULL || header->cmsg_type != SCM_TIMESTAMPNS || received == most) continue;
        struct timespec time;
        uint64_t sent;
        memcpy(&time, CMSG_DATA(header), sizeof time);
        memcpy(&sent, frame + STAMP_AT, sizeof sent);
        delays[received++] = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec - sent;
    }
}

static int compare(const void *a, const void *b) {
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

int main(int count, char **arguments) {
    if (count != 8) {
        fprintf(stderr, "latency INTERFACE DESTINATION-MAC SOURCE-MAC NAMESPACE INTERFACE "
                        "PACKETS-PER-SECOND SECONDS\n");
        return 2;
    }
    unsigned char frame[BYTES];
    write_frame(frame, arguments[2], arguments[3]);
    unsigned char probe[BYTES];
    memcpy(probe, frame, BYTES);
    probe[PORT_AT] = PORT >> 8;
    probe[PORT_AT + 1] = PORT & 255;

    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", arguments[4]);
    int here = open("/proc/self/ns/net", O_RDONLY), there = open(path, O_RDONLY);
    if (here < 0 || there < 0 || setns(there, CLONE_NEWNET) < 0) fail(arguments[4]);
    int in = bound(arguments[5], ETH_P_ALL);
    if (setns(here, CLONE_NEWNET) < 0) fail("network namespace");
    int out = bound(arguments[1], 0);

    double rate = atof(arguments[6]) / 1e9;
    uint64_t for_ns = (uint64_t)(atof(arguments[7]) * 1e9), begin = now_ns(), from = begin;
    uint64_t sent = 0, all = 0, probes = 0;
    size_t most = (size_t)(rate * (double)for_ns / PROBE_EVERY) + 1024;
    delays = calloc(most, sizeof *delays);
    if (delays == NULL) fail("memory");
    for (uint64_t now = begin; now - begin < for_ns; now = now_ns()) {
        uint64_t due = (uint64_t)((double)(now - from) * rate);
        if (due - sent > MAX_LATE) {
            from = now;
            sent = 0;
            continue;
        }
        for (; sent < due; sent++) {
            int is_probe = all++ % PROBE_EVERY == 0;
            if (is_probe) {
                uint64_t stamp = now_ns();
                memcpy(probe + STAMP_AT, &stamp, sizeof stamp);
            }
            if (send(out, is_probe ? probe : frame, BYTES, 0) == BYTES)
                probes += (uint64_t)is_probe;
            if (is_probe) receive(in, most);
        }
    }
    usleep(100000);
    receive(in, most);
    if (received == 0) {
        fprintf(stderr, "no probe was received\n");
        return 1;
    }
    qsort(delays, received, sizeof *delays, compare);
    printf("%llu %llu %zu", (unsigned long long)all, (unsigned long long)probes, received);
    const double parts[] = {0.5, 0.9, 0.99, 0.999, 1.0};
    for (int k = 0; k < 5; k++) {
        size_t at = (size_t)((double)(received - 1) * parts[k]);
        printf(" %llu", (unsigned long long)delays[at]);
    }
    printf("\n");
    return 0;
}
