// The Millstream scheduler for C. cbindgen writes this file from the Rust sources.
//
// Streams, their contracts and the discipline are fixed when a scheduler is made. The caller passes
// packets as handles, and the time: the library reads no clock, does no I/O and starts no thread.
//
// Ownership. A packet belongs to the scheduler from the call that returns MS_OK for it until its
// handle comes back, exactly once: from ms_dequeue or ms_dequeue_burst if it is sent, from
// ms_take_drops if it is dropped. With any other result of an enqueue it stays with the caller.
//
// Threads. One thread at a time may use a scheduler; calls on it must not overlap. It may move
// between threads if the caller synchronizes them, for example by a mutex. Different schedulers
// share nothing. The functions without a scheduler may be called at any time.
//
// Memory. ms_scheduler_new allocates all memory; only ms_scheduler_free releases it. Other calls
// do not allocate, block or enter the kernel, so they fit signal-free real-time threads. If memory
// is exhausted, ms_scheduler_new aborts the process.
//
// Time. Nanoseconds since any start; it must not decrease between calls on one scheduler. At one
// instant, enqueue before dequeue. Lengths are bytes, rates bits/s.
//
// Results. 0 and above report an outcome, below 0 an error without effect; ms_error_text describes
// them. Pointers are checked for null and alignment. A pointer that is freed or dangling, or an
// array that is shorter than its count, is undefined behaviour. No panic leaves the library: it
// becomes MS_ERROR_INTERNAL, and the scheduler then rejects every call except ms_scheduler_free.
//
// Versions. The shared library is libmillstream.so.MS_ABI_MAJOR. A minor version only adds
// functions and codes, and fields at the end of ms_options and ms_contract. Their `size` tells the
// library which fields the caller knows.


#ifndef MILLSTREAM_H
#define MILLSTREAM_H

#include <stddef.h>
#include <stdint.h>

// The major version of the ABI, part of the shared library's name. A change breaks programs.
#define MS_ABI_MAJOR 1

// The minor version of the ABI. A change adds functions, codes or fields.
#define MS_ABI_MINOR 0

// The patch version of the ABI.
#define MS_ABI_PATCH 0

// Done.
#define MS_OK 0

// No packet may be sent now, or there is no time to report.
#define MS_EMPTY 1

// The packet was dropped at a full queue. It stays with the caller.
#define MS_DROPPED_FULL 2

// Queue management dropped the arriving packet. It stays with the caller.
#define MS_DROPPED_AQM 3

// A pointer is null or misaligned.
#define MS_ERROR_POINTER -1

// The `size` of a structure is not that of a known version.
#define MS_ERROR_SIZE -2

// There is no discipline of this name.
#define MS_ERROR_DISCIPLINE -3

// There is no structure of this name, or the discipline does not support it.
#define MS_ERROR_STRUCTURE -4

// A number is outside its range.
#define MS_ERROR_RANGE -5

// The discipline does not accept a contract.
#define MS_ERROR_CONTRACT -6

// There is no stream of this number.
#define MS_ERROR_STREAM -7

// The time is before that of an earlier call.
#define MS_ERROR_TIME -8

// Dropped packets fill the memory: take them by `ms_take_drops`.
#define MS_ERROR_DROPS -9

// The discipline does not support the call.
#define MS_ERROR_UNSUPPORTED -10

// A defect of the library. The scheduler accepts only `ms_scheduler_free`.
#define MS_ERROR_INTERNAL -11

// No deadline, no time, no limit of credits.
#define MS_NONE UINT64_MAX

// The ECN field of a sender that does not react to marks (Not-ECT).
#define MS_ECN_NOT_CAPABLE 0

// ECT(1): the sender expects marks from a shallow queue (L4S).
#define MS_ECN_SCALABLE 1

// ECT(0): the sender reacts to a mark as to a loss.
#define MS_ECN_CAPABLE 2

// Congestion was experienced on the way (CE).
#define MS_ECN_CONGESTED 3

// The packet's service starts.
#define MS_EVENT_SENT 0

// The deadline passed while the packet waited, and the stream drops late packets.
#define MS_EVENT_LATE 1

// The packet's flow was the longest when a limit of its stream was exceeded.
#define MS_EVENT_FULL 2

// Queue management dropped the packet.
#define MS_EVENT_AQM 3

// Late packets are sent.
#define MS_LATE_SEND 0

// Late packets are dropped at the first dequeue at or after their deadline.
#define MS_LATE_DROP 1

// No queue management.
#define MS_AQM_NONE 0

// CoDel (RFC 8289); target 5 ms.
#define MS_AQM_CODEL 1

// PIE (RFC 8033); target 15 ms.
#define MS_AQM_PIE 2

// RED (Floyd and Jacobson, 1993), between 30 and 90 kB.
#define MS_AQM_RED 3

// COBALT, of CAKE; target 5 ms.
#define MS_AQM_COBALT 4

// DualPI2 (RFC 9332); target 15 ms. The stream has two queues, by the ECN field.
#define MS_AQM_DUALPI2 5

// No limit of a queue.
#define MS_UNLIMITED UINT32_MAX

// DWCS: earliest deadline first, windows among equal deadlines.
#define MS_DWCS_EDF_FIRST 0

// DWCS: windows first, deadlines among equal windows.
#define MS_DWCS_LOSS_FIRST 1

// DWCS: the rules of `ShareStreams`.
#define MS_DWCS_STANDARD 0

// DWCS: the rules of RTAS 1999.
#define MS_DWCS_RTAS99 1

// `link_framing`: packets are sent as they are.
#define MS_FRAMING_NONE 0

// `link_framing`: ATM cells.
#define MS_FRAMING_ATM 1

// `link_framing`: PTM, 64b/65b encoding.
#define MS_FRAMING_PTM 2

// DWCS: of windows without losses left, the highest denominator is first.
#define MS_DWCS_HIGHEST_DENOMINATOR 0

// DWCS: of windows without losses left, the lowest denominator is first.
#define MS_DWCS_LOWEST_DENOMINATOR 1

// The most packets of `packet_limit`.
#define MS_MOST_PACKETS (1 << 24)

// The highest rate of a link, bits/s: 10 Tbit/s. Fair queueing is exact while packets do not wait
// so long that the link could send 10^14 bytes.
#define MS_MOST_RATE_BPS 10000000000000

// The most streams of a scheduler.
#define MS_MOST_STREAMS (1 << 20)

// The length of a message that holds every error of `ms_scheduler_new`, bytes.
#define MS_MESSAGE_BYTES 256

// A scheduler. Only functions of this library use it.
typedef struct ms_scheduler ms_scheduler;

// The result of a call: an outcome (0 and above) or an error (below 0) without effect.
typedef int32_t ms_status;

// The settings of a scheduler. Set the defaults by `ms_options_init`; then set `discipline`.
typedef struct ms_options {
  // sizeof(ms_options); `ms_options_init` sets it.
  uint32_t size;
  // The most packets that wait in all streams without flows, and heads of streams with flows: 1
  // to `MS_MOST_PACKETS`. Memory for them is allocated. Default 4096.
  uint32_t packet_limit;
  // The name of the discipline, for example "wf2q+", "dwcs", "edf", "static-priority" or "drr".
  const char *discipline;
  // The name of the structure that finds the next stream, for example "heap". It changes the
  // speed, never the result. Default null: the fastest.
  const char *structure;
  // The rate of the link, bits/s: 1 to `MS_MOST_RATE_BPS`. Default 1 Gbit/s.
  uint64_t link_rate_bps;
  // Bytes that a packet takes on the link beyond its length, before framing; 24 on Ethernet. May
  // be negative. Default 0.
  int32_t link_overhead_bytes;
  // The framing of the link: `MS_FRAMING_NONE`, the default, `MS_FRAMING_ATM` (cells of 53 bytes
  // for every 48) or `MS_FRAMING_PTM` (65 bytes for every 64).
  uint32_t link_framing;
  // DWCS: `MS_DWCS_EDF_FIRST`, the default, or `MS_DWCS_LOSS_FIRST`.
  uint32_t dwcs_order;
  // DWCS: `MS_DWCS_STANDARD`, the default, or `MS_DWCS_RTAS99`.
  uint32_t dwcs_rules;
  // DWCS: `MS_DWCS_HIGHEST_DENOMINATOR`, the default, or `MS_DWCS_LOWEST_DENOMINATOR`.
  uint32_t dwcs_zero_window;
  // minbw: the discipline below the management channel, "wfq", "scfq" or "drr". Default null:
  // "scfq".
  const char *algorithm;
  // table: the stream of each entry.
  const uint32_t *table;
  // table: the number of entries.
  size_t table_entries;
} ms_options;

// The service contract of a stream. A discipline reads the fields that it needs and ignores the
// others. Set the defaults by `ms_contract_init`.
typedef struct ms_contract {
  // sizeof(ms_contract); `ms_contract_init` sets it.
  uint32_t size;
  // Fair queueing: the share, at least 1. WRR: packets in a turn. Default 1.
  uint32_t weight;
  // Deadlines: the request period T, ns, between deadlines of successive packets. The first
  // deadline is arrival + T. Default 0: none.
  uint64_t period_ns;
  // The deadline of the first packet, ns. Default `MS_NONE`: its arrival + period.
  uint64_t first_deadline_ns;
  // DWCS: of any `window_of` packets, at most `window_lost` may be late or lost. Default 0.
  uint32_t window_lost;
  // See `window_lost`. Default 0: no window.
  uint32_t window_of;
  // `MS_LATE_SEND`, the default, or `MS_LATE_DROP`.
  uint32_t late;
  // Static priority; 0 is served first. Default 0.
  uint32_t priority;
  // DRR: bytes that a turn adds. Default 0: weight * (1514 + overhead) / smallest weight.
  uint32_t quantum_bytes;
  // The most packets that wait in the stream. Default `MS_UNLIMITED`.
  uint32_t queue_packets;
  // A cap on the rate, bits/s: heads that exceed it wait, even if the link is idle. Default 0:
  // none.
  uint64_t max_rate_bps;
  // The burst of the cap, bytes.
  uint64_t burst_bytes;
  // Credits of 64 bytes that the stream starts with; `ms_add_credits` returns them. Default
  // `MS_NONE`: no flow control.
  uint64_t credits;
  // minbw: 1 for a management channel, which is served first. Default 0.
  uint32_t management;
  // Flows that have their own queue, up to 65,536 (RFC 8290); more flows share queues. Default
  // 0: one queue, without queue management.
  uint32_t flows;
  // Bytes that a flow may send in a turn. Default 1514.
  uint32_t flow_quantum_bytes;
  // The most packets in all flows of the stream, up to 4,194,304; it replaces `queue_packets`.
  // Default 10,240.
  uint32_t flow_packets;
  // The most bytes in all flows of the stream. Default 32 MiB.
  uint64_t flow_bytes;
  // 1 if hosts share the stream equally, and the flows of a host share its part. Default 0.
  uint32_t flow_hosts;
  // The queue management of each flow, MS_AQM_... Default `MS_AQM_CODEL`; none without flows.
  uint32_t aqm;
  // The target delay of the queue management, ns. Default 0: as the AQM's description says.
  uint64_t aqm_target_ns;
  // The seed of random drops. Default 0.
  uint64_t aqm_seed;
} ms_contract;

// A packet that arrives.
typedef struct ms_packet {
  // The caller's value, for example a pointer. It comes back unchanged.
  uint64_t handle;
  // The number of its stream.
  uint32_t stream;
  // Length, bytes, without the link's overhead. 0 is allowed.
  uint32_t bytes;
  // The hash of its flow, for streams with flows.
  uint32_t flow_hash;
  // The hash of its host, for streams whose hosts share equally.
  uint32_t host_hash;
  // The ECN field, MS_ECN_...: the low two bits of the traffic class.
  uint32_t ecn;
  // 0.
  uint32_t reserved;
} ms_packet;

// A packet that is sent or dropped.
typedef struct ms_decision {
  // The caller's value.
  uint64_t handle;
  // The time of the start of service or of the drop, ns.
  uint64_t time_ns;
  // The arrival time, ns.
  uint64_t arrival_ns;
  // The deadline at the time of service or drop, ns; `MS_NONE` without deadlines.
  uint64_t deadline_ns;
  // The packet's number among the stream's arrivals, from 0; dropped arrivals count.
  uint64_t packet;
  // The number of its stream.
  uint32_t stream;
  // Length, bytes.
  uint32_t bytes;
  // `MS_EVENT_SENT`, or the reason of a drop: `MS_EVENT_LATE`, `MS_EVENT_FULL`,
  // `MS_EVENT_AQM`.
  uint32_t event;
  // 1 if the ECN field must be set to CE, otherwise 0.
  uint32_t mark;
} ms_decision;

// The counters of a stream since it was made. `arrived` is the sum of `sent`, the three counters
// of drops and `waiting`; the same holds for bytes.
typedef struct ms_counters {
  // Packets that arrived, dropped ones included.
  uint64_t arrived;
  // Their bytes.
  uint64_t arrived_bytes;
  // Packets sent.
  uint64_t sent;
  // Their bytes.
  uint64_t sent_bytes;
  // Packets dropped because their deadline passed.
  uint64_t dropped_late;
  // Packets dropped at limits.
  uint64_t dropped_full;
  // Packets dropped by queue management.
  uint64_t dropped_aqm;
  // Bytes of all dropped packets.
  uint64_t dropped_bytes;
  // Deadlines missed: request periods that ended while a packet waited, and packets sent late.
  uint64_t missed;
  // Misses beyond the losses that the window allows.
  uint64_t violations;
  // Packets that wait.
  uint64_t waiting;
  // Their bytes.
  uint64_t waiting_bytes;
} ms_counters;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Returns the version of the ABI: major << 16 | minor << 8 | patch. A program may run with a
// library of its major version, and of its minor version or above.
uint32_t ms_abi_version(void);

// Returns a description of a result, in English, without a period. It is static.
const char *ms_error_text(ms_status status);

// Sets the defaults. `size` is sizeof(ms_options).
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_SIZE`.
ms_status ms_options_init(struct ms_options *options, size_t size);

// Sets the defaults. `size` is sizeof(ms_contract).
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_SIZE`.
ms_status ms_contract_init(struct ms_contract *contract, size_t size);

// Makes a scheduler of `count` streams, numbered from 0, and writes it to `scheduler`. This call
// allocates all memory.
//
// If it fails, it writes null to `scheduler` and the reason to `message`, which has
// `message_bytes` bytes and ends in a zero. `message` may be null; `MS_MESSAGE_BYTES` are enough.
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_SIZE`, `MS_ERROR_DISCIPLINE`, `MS_ERROR_STRUCTURE`,
// `MS_ERROR_RANGE`, `MS_ERROR_CONTRACT`, `MS_ERROR_INTERNAL`.
ms_status ms_scheduler_new(const struct ms_options *options,
                           const struct ms_contract *contracts,
                           size_t count,
                           struct ms_scheduler **scheduler,
                           char *message,
                           size_t message_bytes);

// Frees a scheduler. Packets that it still has stay with the caller. Null is allowed.
void ms_scheduler_free(struct ms_scheduler *scheduler);

// Enqueues a packet of `bytes` bytes that arrives at `now_ns` in a stream. In a stream with flows
// it belongs to the flow 0; use `ms_enqueue_packet` there.
//
// `MS_OK`: the scheduler has the packet. `MS_DROPPED_FULL`, `MS_DROPPED_AQM`: it was dropped, is
// counted, and stays with the caller.
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_STREAM`, `MS_ERROR_TIME`, `MS_ERROR_DROPS`,
// `MS_ERROR_INTERNAL`.
ms_status ms_enqueue(struct ms_scheduler *scheduler,
                     uint32_t stream,
                     uint64_t handle,
                     uint32_t bytes,
                     uint64_t now_ns);

// Enqueues a packet with its flow. At a limit of the flows, packets of the longest flow are
// dropped: `ms_take_drops` returns them.
//
// Results and errors: see `ms_enqueue`; `MS_ERROR_RANGE` for the ECN field.
ms_status ms_enqueue_packet(struct ms_scheduler *scheduler,
                            const struct ms_packet *packet,
                            uint64_t now_ns);

// Enqueues `count` packets that arrive at one instant, in order. Dropped ones stay with the
// caller: the first `refused` of `packets` are then the dropped ones, in order; the others are
// unspecified.
//
// Errors: see `ms_enqueue_packet`. No packet was enqueued then.
ms_status ms_enqueue_burst(struct ms_scheduler *scheduler,
                           struct ms_packet *packets,
                           size_t count,
                           uint64_t now_ns,
                           size_t *refused);

// Makes one decision at `now_ns`: drops late packets, then writes the packet to send to
// `decision`. Call it whenever the link is free, even if no packet waits: that ends a busy period.
//
// `MS_EMPTY`: no packet may be sent now. If packets wait, call again at the time of
// `ms_next_eligible` or at the next arrival, whichever is first.
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_TIME`, `MS_ERROR_INTERNAL`.
ms_status ms_dequeue(struct ms_scheduler *scheduler, uint64_t now_ns, struct ms_decision *decision);

// Makes up to `most` decisions at one instant, for drivers that fill a transmit ring. Writes them
// to `decisions` and their number, which may be 0, to `count`.
//
// Errors: see `ms_dequeue`.
ms_status ms_dequeue_burst(struct ms_scheduler *scheduler,
                           uint64_t now_ns,
                           struct ms_decision *decisions,
                           size_t most,
                           size_t *count);

// Returns dropped packets to their owner: writes up to `most` of them to `decisions`, in the order
// of the drops, and their number, which may be 0, to `count`. Call it after each dequeue, and
// after each enqueue to a stream with flows.
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_INTERNAL`.
ms_status ms_take_drops(struct ms_scheduler *scheduler,
                        struct ms_decision *decisions,
                        size_t most,
                        size_t *count);

// Writes the time, ns, at which the next stream becomes eligible under its rate cap; `MS_NONE` and
// `MS_EMPTY` if time makes no stream eligible.
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_INTERNAL`.
ms_status ms_next_eligible(struct ms_scheduler *scheduler, uint64_t *time_ns);

// Allows (not 0) or forbids (0) the service of a stream. Deadlines of its packets still pass.
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_STREAM`, `MS_ERROR_TIME`, `MS_ERROR_INTERNAL`.
ms_status ms_set_eligible(struct ms_scheduler *scheduler,
                          uint32_t stream,
                          int32_t eligible,
                          uint64_t now_ns);

// Returns credits of 64 bytes to a stream; no effect on a stream without flow control.
//
// Errors: see `ms_set_eligible`.
ms_status ms_add_credits(struct ms_scheduler *scheduler,
                         uint32_t stream,
                         uint64_t credits,
                         uint64_t now_ns);

// Charges the last packet sent from a stream with `extra_bytes` beyond its length; a negative
// value is a refund. Call it before the stream is served again. wf2q+ and drr support it.
//
// Errors: see `ms_set_eligible`; `MS_ERROR_UNSUPPORTED`.
ms_status ms_charge(struct ms_scheduler *scheduler,
                    uint32_t stream,
                    int64_t extra_bytes,
                    uint64_t now_ns);

// Writes the counters of a stream, its backlog included.
//
// Errors: `MS_ERROR_POINTER`, `MS_ERROR_STREAM`, `MS_ERROR_INTERNAL`.
ms_status ms_stream_counters(struct ms_scheduler *scheduler,
                             uint32_t stream,
                             struct ms_counters *counters);

// Returns the number of packets that wait in all streams; 0 if `scheduler` is null.
uint64_t ms_backlog(const struct ms_scheduler *scheduler);

// Returns the number of streams; 0 if `scheduler` is null.
size_t ms_streams(const struct ms_scheduler *scheduler);

// Returns the number of dropped packets that `ms_take_drops` has not returned; 0 if `scheduler` is
// null.
size_t ms_pending_drops(const struct ms_scheduler *scheduler);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MILLSTREAM_H */
