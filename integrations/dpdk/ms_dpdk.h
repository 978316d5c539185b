/* A scheduling stage for DPDK on the C library of Millstream, used like rte_sched_port.
 *
 * The stream of a packet is its scheduler queue: set it by rte_mbuf_sched_queue_set. One thread
 * uses a port at a time.
 */
#ifndef MS_DPDK_H
#define MS_DPDK_H

#include <stddef.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include <millstream.h>

struct ms_dpdk_port;

/* Makes a port of `count` streams. Returns NULL and writes the reason to `message`, which has
 * MS_MESSAGE_BYTES bytes, if it fails. The link of `options` is that of the transmitting port: the
 * stage never sends faster. */
struct ms_dpdk_port *ms_dpdk_port_new(const struct ms_options *options,
                                      const struct ms_contract *streams, size_t count,
                                      char *message);

/* Frees a port and its packets. NULL is allowed. */
void ms_dpdk_port_free(struct ms_dpdk_port *port);

/* Enqueues packets, at most MS_DPDK_BURST. Frees those that are dropped or of no stream. Returns
 * the number of the others. */
uint32_t ms_dpdk_port_enqueue(struct ms_dpdk_port *port, struct rte_mbuf **packets,
                              uint32_t count);

/* Writes at most `count` packets to send now, at most MS_DPDK_BURST; returns their number. Frees
 * packets that are dropped late. */
uint32_t ms_dpdk_port_dequeue(struct ms_dpdk_port *port, struct rte_mbuf **packets,
                              uint32_t count);

/* Returns the scheduler, for counters. */
struct ms_scheduler *ms_dpdk_port_scheduler(struct ms_dpdk_port *port);

/* The most packets of a call. */
#define MS_DPDK_BURST 64

#endif
