// A queue disc. Millstream schedules its packets, through its C library.
//
// Each stream is an internal queue, first in, first out. Millstream decides which internal queue
// the next packet leaves, and which packets are dropped.

#ifndef MILLSTREAM_QUEUE_DISC_H
#define MILLSTREAM_QUEUE_DISC_H

#include "ns3/data-rate.h"
#include "ns3/event-id.h"
#include "ns3/queue-disc.h"

#include <string>

struct ms_decision;
struct ms_scheduler;

namespace ns3
{

/**
 * \brief A queue disc with streams under contracts.
 *
 * A packet filter returns the number of a packet's stream. Without filters, the hash of the
 * packet's addresses and ports selects the stream.
 */
class MillstreamQueueDisc : public QueueDisc
{
  public:
    /**
     * \brief Get the type ID.
     * \return the object TypeId
     */
    static TypeId GetTypeId();

    MillstreamQueueDisc();
    ~MillstreamQueueDisc() override;

    /**
     * \brief Get the time at which a rate cap lets the next packet go.
     * \return the time; Time::Max() if no rate cap holds back a packet
     */
    Time GetNextEligible() const;

    // Reasons for dropping packets
    static constexpr const char* UNCLASSIFIED_DROP = "Unclassified drop"; //!< No such stream
    static constexpr const char* FULL_DROP = "Queue limit drop";          //!< A queue is full
    static constexpr const char* LATE_DROP = "Deadline drop"; //!< The deadline passed

  protected:
    void DoDispose() override;

  private:
    bool DoEnqueue(Ptr<QueueDiscItem> item) override;
    Ptr<QueueDiscItem> DoDequeue() override;
    bool CheckConfig() override;
    void InitializeParams() override;

    /**
     * \brief Remove the head of a stream's internal queue.
     * \param decision the decision on it
     * \return the packet
     */
    Ptr<QueueDiscItem> Leave(const ms_decision& decision);

    std::string m_discipline;  //!< The name of the discipline
    std::string m_structure;   //!< The name of the structure; empty for the fastest
    std::string m_order;       //!< The order of DWCS
    std::string m_streams;     //!< The contracts of the streams
    DataRate m_linkRate;       //!< The rate of the link
    uint32_t m_overhead;       //!< Bytes of a packet on the link beyond its length
    ms_scheduler* m_scheduler; //!< The scheduler
    EventId m_opening;         //!< When a rate cap lets the next packet go
};

} // namespace ns3

#endif /* MILLSTREAM_QUEUE_DISC_H */
