// Programs for interfaces, by bpf(2) alone, as instructions: for flood.c and xdp_forward.c.
#ifndef XDP_H
#define XDP_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

static inline int bpf(int command, union bpf_attr *attribute, const char *what) {
    int result = (int)syscall(SYS_bpf, command, attribute, sizeof *attribute);
    if (result < 0) fail(what);
    return result;
}

static inline struct bpf_insn instruction(uint8_t code, uint8_t to, uint8_t from, int16_t offset, int32_t value) {
    return (struct bpf_insn){.code = code, .dst_reg = to, .src_reg = from, .off = offset, .imm = value};
}

// Loads a program for interfaces.
static inline int load(const struct bpf_insn *instructions, unsigned count) {
    static char log[1 << 16];
    union bpf_attr attribute = {
        .prog_type = BPF_PROG_TYPE_XDP,
        .insns = (uintptr_t)instructions,
        .insn_cnt = count,
        .license = (uintptr_t) "MIT",
        .log_buf = (uintptr_t)log,
        .log_size = sizeof log,
        .log_level = 1,
    };
    int program = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attribute, sizeof attribute);
    if (program < 0) {
        fputs(log, stderr);
        fail("loading the program");
    }
    return program;
}

// The hardware address that `text` says, or the end.
static inline void hardware_address(const char *text, unsigned char *into) {
    unsigned at[6];
    if (sscanf(text, "%x:%x:%x:%x:%x:%x", at, at + 1, at + 2, at + 3, at + 4, at + 5) != 6) {
        fprintf(stderr, "`%s` is no hardware address such as 02:00:00:00:00:01\n", text);
        exit(2);
    }
    for (int k = 0; k < 6; k++) into[k] = (unsigned char)at[k];
}

#endif
