// A minimal AF_XDP forwarder: xdp_forward FROM TO DESTINATION-MAC
//
// Forwards from one interface to another in batches of at most 32. Packets stay in the memory that
// both sockets share; their hardware addresses are rewritten, and one system call sends a batch.
// Polls. On SIGUSR1 it prints the packets forwarded and the time of the rounds that moved packets,
// ns. Ends on SIGINT.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#include "xdp.h"

enum { BATCH = 32, RING = 2048, FRAMES = 2 * RING, FRAME_BYTES = 4096 };

struct ring {
    uint32_t *producer, *consumer;
    void *entries;
};

struct port {
    int socket;
    struct ring receive, send, fill, sent;
};

static volatile sig_atomic_t report_requested, stop_requested;

static void on_signal(int signal) {
    if (signal == SIGUSR1) report_requested = 1;
    else stop_requested = 1;
}

static struct ring map(int socket, const struct xdp_ring_offset *at, off_t which, size_t entry) {
    size_t bytes = at->desc + RING * entry;
    char *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket, which);
    if (memory == MAP_FAILED) fail("mapping a ring");
    return (struct ring){(uint32_t *)(memory + at->producer), (uint32_t *)(memory + at->consumer),
                         memory + at->desc};
}

static uint32_t filled(const struct ring *ring) {
    return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) -
           __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE);
}

static void moved(uint32_t *end, uint32_t many) {
    __atomic_store_n(end, *end + many, __ATOMIC_RELEASE);
}

static void option(int socket, int name, int value) {
    if (setsockopt(socket, SOL_XDP, name, &value, sizeof value) < 0) fail("a ring's size");
}

// Opens an interface; `shares` owns the memory, or is null.
static struct port open_port(const char *name, void *memory, const struct port *shares) {
    struct port port = {.socket = socket(AF_XDP, SOCK_RAW, 0)};
    if (port.socket < 0) fail("AF_XDP");
    if (!shares) {
        struct xdp_umem_reg of = {.addr = (uintptr_t)memory, .len = (uint64_t)FRAMES * FRAME_BYTES,
                                  .chunk_size = FRAME_BYTES};
        if (setsockopt(port.socket, SOL_XDP, XDP_UMEM_REG, &of, sizeof of) < 0) fail("memory");
    }
    const int rings[] = {XDP_UMEM_FILL_RING, XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING};
    for (int k = 0; k < 4; k++) option(port.socket, rings[k], RING);
    struct xdp_mmap_offsets at;
    socklen_t length = sizeof at;
    if (getsockopt(port.socket, SOL_XDP, XDP_MMAP_OFFSETS, &at, &length) < 0) fail("offsets");
    port.receive = map(port.socket, &at.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
    port.send = map(port.socket, &at.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
    port.fill = map(port.socket, &at.fr, (off_t)XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t));
    port.sent = map(port.socket, &at.cr, (off_t)XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t));

    unsigned interface = if_nametoindex(name);
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = interface,
                                   .sxdp_flags = shares ? XDP_SHARED_UMEM : XDP_COPY};
    if (shares) address.sxdp_shared_umem_fd = (uint32_t)shares->socket;
    if (interface == 0) fail(name);
    // A previous socket may not have released the interface yet.
    struct sockaddr *to = (struct sockaddr *)&address;
    for (int tries = 0; bind(port.socket, to, sizeof address) < 0; tries++) {
        if (errno != EBUSY || tries == 100) fail(name);
        usleep(10000);
    }

    union bpf_attr attribute = {
        .map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
    int sockets = bpf(BPF_MAP_CREATE, &attribute, "a table of sockets");
    uint32_t key = 0, value = (uint32_t)port.socket;
    memset(&attribute, 0, sizeof attribute);
    attribute.map_fd = (uint32_t)sockets;
    attribute.key = (uintptr_t)&key;
    attribute.value = (uintptr_t)&value;
    bpf(BPF_MAP_UPDATE_ELEM, &attribute, "the table of sockets");
    const struct bpf_insn program[] = {
        instruction(BPF_LDX | BPF_MEM | BPF_W, 2, 1, offsetof(struct xdp_md, rx_queue_index), 0),
        instruction(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, sockets),
        instruction(0, 0, 0, 0, 0),
        instruction(BPF_ALU64 | BPF_MOV | BPF_K, 3, 0, 0, XDP_PASS),
        instruction(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_redirect_map),
        instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
    };
    memset(&attribute, 0, sizeof attribute);
    attribute.link_create.prog_fd = (uint32_t)load(program, sizeof program / sizeof *program);
    attribute.link_create.target_ifindex = interface;
    attribute.link_create.attach_type = BPF_XDP;
    attribute.link_create.flags = XDP_FLAGS_DRV_MODE;
    bpf(BPF_LINK_CREATE, &attribute, "attaching the program");
    return port;
}

static void own_address(const char *name, unsigned char *into) {
    struct ifreq of = {0};
    strncpy(of.ifr_name, name, IFNAMSIZ - 1);
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    if (any < 0 || ioctl(any, SIOCGIFHWADDR, &of) < 0) fail(name);
    memcpy(into, of.ifr_hwaddr.sa_data, 6);
    close(any);
}

static uint64_t monotonic_ns(void) {
    struct timespec of;
    clock_gettime(CLOCK_MONOTONIC, &of);
    return (uint64_t)of.tv_sec * 1000000000 + (uint64_t)of.tv_nsec;
}

// Returns sent frames to the fill ring.
static uint32_t give_back(struct port *from, struct port *to) {
    uint32_t many = filled(&to->sent);
    uint64_t *sent = to->sent.entries, *fill = from->fill.entries;
    for (uint32_t k = 0; k < many; k++)
        fill[(*from->fill.producer + k) % RING] = sent[(*to->sent.consumer + k) % RING];
    moved(to->sent.consumer, many);
    moved(from->fill.producer, many);
    return many;
}

// Moves received packets to the send ring, at most a batch and the free slots.
static uint32_t forward(struct port *from, struct port *to, char *memory,
                        const unsigned char *addresses) {
    uint32_t many = filled(&from->receive), room = RING - filled(&to->send);
    if (many > BATCH) many = BATCH;
    if (many > room) many = room;
    struct xdp_desc *received = from->receive.entries, *send = to->send.entries;
    for (uint32_t k = 0; k < many; k++) {
        struct xdp_desc packet = received[(*from->receive.consumer + k) % RING];
        memcpy(memory + packet.addr, addresses, 12);
        send[(*to->send.producer + k) % RING] = packet;
    }
    moved(from->receive.consumer, many);
    moved(to->send.producer, many);
    return many;
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "xdp_forward FROM TO DESTINATION-MAC\n");
        return 2;
    }
    unsigned char addresses[12];
    hardware_address(arguments[3], addresses);
    own_address(arguments[2], addresses + 6);
    char *memory = mmap(NULL, (size_t)FRAMES * FRAME_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) fail("memory");
    struct port from = open_port(arguments[1], memory, NULL);
    struct port to = open_port(arguments[2], memory, &from);
    uint64_t *fill = from.fill.entries;
    for (uint32_t k = 0; k < RING; k++) fill[k] = (uint64_t)k * FRAME_BYTES;
    moved(from.fill.producer, RING);

    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    uint64_t packets = 0, busy_ns = 0, began_ns = monotonic_ns();
    while (!stop_requested) {
        uint32_t back = give_back(&from, &to), many = forward(&from, &to, memory, addresses);
        // Also sends packets that an earlier call has left in the ring.
        if (filled(&to.send) > 0) sendto(to.socket, NULL, 0, MSG_DONTWAIT, NULL, 0);
        uint64_t ended_ns = monotonic_ns();
        if (back + many > 0) busy_ns += ended_ns - began_ns;
        began_ns = ended_ns;
        packets += many;
        if (report_requested) {
            report_requested = 0;
            printf("%llu %llu\n", (unsigned long long)packets, (unsigned long long)busy_ns);
            fflush(stdout);
        }
    }
    return 0;
}
