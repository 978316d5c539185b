// Measures the delay of voice on a slow line beside a flood, and the spacing of packets:
// pacing INTERFACE DESTINATION-MAC SOURCE-MAC NAMESPACE INTERFACE BITS-PER-SECOND SECONDS
//
// Sends 1,500-byte frames of frame.h, evenly spaced, at twice the line's rate, and 200-byte probes
// to UDP port 7777, randomly 10 to 30 ms apart, with their time of sending. The second interface is
// in the given network namespace, where the kernel stamps received frames. Prints a line: probes
// sent, probes received, and in ns the median, 99th percentile and maximum of the probes. For
// received frames the line then has bits a second, and the minimum time from first to last of four
// and of two consecutive frames. These are in thousandths of the transmission time of all but the
// last frame. The last field is the share of its own time, in millionths, that this program lost in
// interruptions of 100 us and more.
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

enum { FLOOD = 1500, VOICE = 200, PORT = 7777, STAMP_AT = 42 };
enum { MAX_LATE = 64, MAX_FRAMES = 1 << 22, FIRST = 16, MIN_INTERRUPTION_NS = 100000 };

static int bound(const char *interface, int receives) {
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)(receives ? ETH_P_IP : 0))};
    address.sll_ifindex = (int)if_nametoindex(interface);
    if (fd < 0 || address.sll_ifindex == 0) fail(interface);
    int on = 1, room = 64 << 20;
    if (receives) {
        if (setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room) < 0)
            fail("socket");
    } else if (setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) < 0) {
        fail("socket");
    }
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail(interface);
    return fd;
}

static uint64_t *delays, *arrivals;
static uint32_t *lengths;
static size_t probes, frames;

static void receive(int fd) {
    for (;;) {
        unsigned char frame[FLOOD];
        char control[128];
        struct iovec vector = {frame, sizeof frame};
        struct msghdr message = {
            .msg_iov = &vector, .msg_iovlen = 1,
            .msg_control = control, .msg_controllen = sizeof control};
        ssize_t length = recvmsg(fd, &message, 0);
        if (length < 0) return;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        if (length < VOICE || header == NULL || header->cmsg_type != SCM_TIMESTAMPNS ||
            frames == MAX_FRAMES)
            continue;
        struct timespec time;
        memcpy(&time, CMSG_DATA(header), sizeof time);
        uint64_t at = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec, sent;
        arrivals[frames] = at;
        lengths[frames++] = (uint32_t)length;
        memcpy(&sent, frame + STAMP_AT, sizeof sent);
        if (length == VOICE) delays[probes++] = at - sent;
    }
}

static int compare(const void *a, const void *b) {
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

// The minimum time from the first to the last of `many` consecutive frames, in thousandths of their
// transmission time.
static double closest(size_t many, double bits_a_ns) {
    double least = 1e9;
    for (size_t last = FIRST + many - 1; last < frames; last++) {
        double takes = 0;
        for (size_t k = last - many + 1; k < last; k++) takes += lengths[k] * 8 / bits_a_ns;
        double apart = (double)(arrivals[last] - arrivals[last - many + 1]) / takes * 1000;
        if (apart < least) least = apart;
    }
    return least;
}

static void resize(unsigned char *frame, int bytes) {
    frame[16] = (unsigned char)((bytes - 14) >> 8);
    frame[17] = (unsigned char)(bytes - 14);
    frame[24] = frame[25] = 0;
    write_checksum(frame);
    frame[38] = (unsigned char)((bytes - 34) >> 8);
    frame[39] = (unsigned char)(bytes - 34);
}

int main(int count, char **arguments) {
    if (count != 8) {
        fprintf(stderr, "pacing INTERFACE DESTINATION-MAC SOURCE-MAC NAMESPACE INTERFACE "
                        "BITS-PER-SECOND SECONDS\n");
        return 2;
    }
    unsigned char flood[FLOOD] = {0}, voice[VOICE] = {0};
    write_frame(flood, arguments[2], arguments[3]);
    memcpy(voice, flood, BYTES);
    resize(flood, FLOOD);
    resize(voice, VOICE);
    voice[PORT_AT] = PORT >> 8;
    voice[PORT_AT + 1] = PORT & 255;

    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", arguments[4]);
    int here = open("/proc/self/ns/net", O_RDONLY), there = open(path, O_RDONLY);
    if (here < 0 || there < 0 || setns(there, CLONE_NEWNET) < 0) fail(arguments[4]);
    int in = bound(arguments[5], 1);
    if (setns(here, CLONE_NEWNET) < 0) fail("network namespace");
    int out = bound(arguments[1], 0);

    double bits_a_ns = atof(arguments[6]) / 1e9, rate = 2 * bits_a_ns / (FLOOD * 8);
    uint64_t for_ns = (uint64_t)(atof(arguments[7]) * 1e9), begin = now_ns(), from = begin;
    uint64_t sent = 0, sent_probes = 0;
    // Voice starts when the flood has filled its queue.
    uint64_t next = begin + 500000000;
    delays = calloc(MAX_FRAMES, sizeof *delays);
    arrivals = calloc(MAX_FRAMES, sizeof *arrivals);
    lengths = calloc(MAX_FRAMES, sizeof *lengths);
    if (delays == NULL || arrivals == NULL || lengths == NULL) fail("memory");
    srandom(1);
    uint64_t last = begin, lost = 0;
    for (uint64_t now = begin; now - begin < for_ns; now = now_ns()) {
        if (now - last > MIN_INTERRUPTION_NS) lost += now - last;
        last = now;
        uint64_t due = (uint64_t)((double)(now - from) * rate);
        if (due - sent > MAX_LATE) {
            from = now;
            sent = 0;
            continue;
        }
        for (; sent < due; sent++) (void)!send(out, flood, FLOOD, 0);
        if (now >= next) {
            uint64_t stamp = now_ns();
            memcpy(voice + STAMP_AT, &stamp, sizeof stamp);
            sent_probes += send(out, voice, VOICE, 0) == VOICE;
            next = now + 10000000 + (uint64_t)random() % 20000000;
        }
        receive(in);
    }
    // Later frames were sent while the line was no longer saturated.
    size_t full = frames;
    usleep(200000);
    receive(in);
    frames = full;
    if (probes == 0 || frames < FIRST + 8) {
        fprintf(stderr, "%zu probes and %zu frames were received\n", probes, frames);
        return 1;
    }
    qsort(delays, probes, sizeof *delays, compare);
    double bits = 0;
    for (size_t k = FIRST; k < frames - 1; k++) bits += lengths[k] * 8;
    double carried = bits / (double)(arrivals[frames - 1] - arrivals[FIRST]) * 1e9;
    size_t tail = (size_t)((double)(probes - 1) * 0.99);
    printf("%llu %zu %llu %llu %llu %.0f %.0f %.0f %.0f\n", (unsigned long long)sent_probes, probes,
           (unsigned long long)delays[(probes - 1) / 2], (unsigned long long)delays[tail],
           (unsigned long long)delays[probes - 1], carried, closest(4, bits_a_ns),
           closest(2, bits_a_ns), (double)lost / (double)for_ns * 1e6);
    return 0;
}
