// Sends 60-byte frames at full speed:
// flood INTERFACE DESTINATION-MAC SOURCE-MAC SECONDS [STREAMS]
//
// Frames are IPv4, UDP, from 10.1.0.2 to 10.2.0.2. With several streams each frame goes to the
// random port of a stream, from 1024 on. The kernel generates them: a program writes each frame and
// redirects it to the interface (BPF_PROG_TEST_RUN with live frames), which leaves most of the
// sender's core to the receivers. The other end of the interface, a veth, needs an XDP program or
// GRO; it drops frames beyond its capacity.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <net/if.h>
#include <signal.h>
#include <sys/time.h>

#include "xdp.h"

enum { BATCH = 256, FIRST_PORT = 1024 };

static volatile sig_atomic_t stop_requested;

static void end(int signal) {
    (void)signal;
    stop_requested = 1;
}

static int program(const unsigned char *frame, unsigned interface, unsigned streams) {
    struct bpf_insn of[64];
    unsigned count = 0;
    of[count++] = instruction(BPF_ALU64 | BPF_MOV | BPF_X, 6, 1, 0, 0);
    of[count++] = instruction(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
    if (streams > 1) {
        // r0 = the port in network byte order
        of[count++] = instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_prandom_u32);
        of[count++] = instruction(BPF_ALU | BPF_MOD | BPF_K, 0, 0, 0, (int)streams);
        of[count++] = instruction(BPF_ALU | BPF_ADD | BPF_K, 0, 0, 0, FIRST_PORT);
        of[count++] = instruction(BPF_ALU | BPF_END | BPF_TO_BE, 0, 0, 0, 16);
    }
    of[count++] = instruction(BPF_LDX | BPF_MEM | BPF_W, 2, 6, offsetof(struct xdp_md, data), 0);
    of[count++] =
        instruction(BPF_LDX | BPF_MEM | BPF_W, 3, 6, offsetof(struct xdp_md, data_end), 0);
    of[count++] = instruction(BPF_ALU64 | BPF_MOV | BPF_X, 4, 2, 0, 0);
    of[count++] = instruction(BPF_ALU64 | BPF_ADD | BPF_K, 4, 0, 0, BYTES);
    unsigned shorter = count;
    of[count++] = instruction(BPF_JMP | BPF_JGT | BPF_X, 4, 3, 0, 0);
    // The kernel reuses frames, which receivers may have modified.
    for (int at = 0; at < BYTES; at += 4) {
        int32_t word;
        memcpy(&word, frame + at, 4);
        of[count++] = instruction(BPF_ST | BPF_MEM | BPF_W, 2, 0, (int16_t)at, word);
    }
    if (streams > 1) of[count++] = instruction(BPF_STX | BPF_MEM | BPF_H, 2, 0, PORT_AT, 0);
    of[shorter].off = (int16_t)(count - shorter - 1);
    of[count++] = instruction(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, (int)interface);
    of[count++] = instruction(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 0);
    of[count++] = instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect);
    of[count++] = instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
    return load(of, count);
}

int main(int count, char **arguments) {
    if (count < 5) {
        fprintf(stderr, "flood INTERFACE DESTINATION-MAC SOURCE-MAC SECONDS [STREAMS]\n");
        return 2;
    }
    unsigned char frame[BYTES];
    write_frame(frame, arguments[2], arguments[3]);

    unsigned interface = if_nametoindex(arguments[1]);
    if (interface == 0) fail(arguments[1]);
    int streams = count > 5 ? atoi(arguments[5]) : 1;
    union bpf_attr attribute = {0};
    attribute.test.prog_fd = (unsigned)program(frame, interface, (unsigned)streams);
    attribute.test.data_in = (uintptr_t)frame;
    attribute.test.data_size_in = BYTES;
    attribute.test.repeat = INT_MAX;
    attribute.test.batch_size = BATCH;
    attribute.test.flags = BPF_F_TEST_XDP_LIVE_FRAMES;

    // A signal ends the call, which is slow to start and to end. The timer repeats, since the first
    // signal may arrive before the call.
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGALRM, &action, NULL);
    double seconds = atof(arguments[4]);
    struct itimerval timer = {
        .it_value = {.tv_sec = (time_t)seconds}, .it_interval = {.tv_usec = 10000}};
    timer.it_value.tv_usec = (suseconds_t)(1e6 * (seconds - (double)timer.it_value.tv_sec));
    setitimer(ITIMER_REAL, &timer, NULL);
    while (!stop_requested) {
        if (syscall(SYS_bpf, BPF_PROG_TEST_RUN, &attribute, sizeof attribute) < 0 && errno != EINTR)
            fail("sending");
    }
    return 0;
}
