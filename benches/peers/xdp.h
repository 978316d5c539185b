// Loads XDP programs, given as instructions, by bpf(2): for flood.c and xdp_forward.c.
#ifndef XDP_H
#define XDP_H

#include <linux/bpf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "frame.h"

static inline int bpf(int command, union bpf_attr *attribute, const char *what) {
    int result = (int)syscall(SYS_bpf, command, attribute, sizeof *attribute);
    if (result < 0) fail(what);
    return result;
}

static inline struct bpf_insn instruction(uint8_t code, uint8_t to, uint8_t from, int16_t offset,
                                          int32_t value) {
    return (struct bpf_insn){
        .code = code, .dst_reg = to, .src_reg = from, .off = offset, .imm = value};
}

// Loads an XDP program.
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

#endif
