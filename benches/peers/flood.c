// Sends one frame over and over as fast as it can: flood INTERFACE DESTINATION-MAC SOURCE-MAC [SECONDS]
// The frame is 60 bytes: IPv4, UDP, from 10.1.0.2 to 10.2.0.2. Prints how many were sent.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64, BYTES = 60 };

static void hardware_address(const char *text, unsigned char *into) {
    unsigned at[6];
    if (sscanf(text, "%x:%x:%x:%x:%x:%x", at, at + 1, at + 2, at + 3, at + 4, at + 5) != 6) {
        fprintf(stderr, "flood: `%s` is no hardware address such as 02:00:00:00:00:01\n", text);
        exit(2);
    }
    for (int k = 0; k < 6; k++) into[k] = (unsigned char)at[k];
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "flood INTERFACE DESTINATION-MAC SOURCE-MAC [SECONDS]\n");
        return 2;
    }
    unsigned char frame[BYTES] = {0};
    hardware_address(arguments[2], frame);
    hardware_address(arguments[3], frame + 6);
    const unsigned char ip[] = {8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2,
                                0, 9, 0, 9, 0, 26};
    memcpy(frame + 12, ip, sizeof ip);
    unsigned sum = 0;
    for (int k = 14; k < 34; k += 2) sum += (unsigned)frame[k] << 8 | frame[k + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    frame[24] = (unsigned char)(sum >> 8);
    frame[25] = (unsigned char)sum;

    int out = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(arguments[1])};
    int one = 1;
    if (out < 0 || bind(out, (struct sockaddr *)&at, sizeof at) < 0) {
        perror(arguments[1]);
        return 1;
    }
    setsockopt(out, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    struct iovec data = {frame, BYTES};
    struct mmsghdr messages[BATCH];
    memset(messages, 0, sizeof messages);
    for (int k = 0; k < BATCH; k++) {
        messages[k].msg_hdr.msg_iov = &data;
        messages[k].msg_hdr.msg_iovlen = 1;
    }
    double seconds = count > 4 ? atof(arguments[4]) : 3;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + seconds;
    unsigned long long sent = 0;
    do {
        int done = sendmmsg(out, messages, BATCH, 0);
        if (done > 0) sent += (unsigned)done;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)now.tv_sec + 1e-9 * (double)now.tv_nsec < end);
    printf("%llu\n", sent);
    return 0;
}
