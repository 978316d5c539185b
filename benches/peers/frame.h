// The 60-byte frame of flood.c, latency.c and pacing.c, and helpers of all programs here.
#ifndef FRAME_H
#define FRAME_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Bytes of a frame, and the offset of its UDP port.
enum { BYTES = 60, PORT_AT = 36 };

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

// Parses a hardware address; exits if it is invalid.
static inline void hardware_address(const char *text, unsigned char *into) {
    unsigned at[6];
    if (sscanf(text, "%x:%x:%x:%x:%x:%x", at, at + 1, at + 2, at + 3, at + 4, at + 5) != 6) {
        fprintf(stderr, "`%s` is not a hardware address such as 02:00:00:00:00:01\n", text);
        exit(2);
    }
    for (int k = 0; k < 6; k++) into[k] = (unsigned char)at[k];
}

// Writes the checksum of the IPv4 header; its checksum field must be zero.
static inline void write_checksum(unsigned char *frame) {
    unsigned sum = 0;
    for (int k = 14; k < 34; k += 2) sum += (unsigned)frame[k] << 8 | frame[k + 1];
    sum = (sum & 0xffff) + (sum >> 16);
    sum = ~((sum & 0xffff) + (sum >> 16));
    frame[24] = (unsigned char)(sum >> 8);
    frame[25] = (unsigned char)sum;
}

// Nanoseconds of the clock of the kernel's packet time stamps.
static inline uint64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

// Writes an IPv4 UDP frame from 10.1.0.2 to 10.2.0.2, port 1024.
static inline void write_frame(unsigned char *frame, const char *to, const char *from) {
    memset(frame, 0, BYTES);
    hardware_address(to, frame);
    hardware_address(from, frame + 6);
    const unsigned char ip[] = {8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0,
                                10, 1, 0, 2, 10, 2, 0, 2, 0, 9, 4, 0, 0, 26};
    memcpy(frame + 12, ip, sizeof ip);
    write_checksum(frame);
}

#endif
