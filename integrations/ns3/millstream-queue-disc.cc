#include "millstream-queue-disc.h"

#include "ns3/drop-tail-queue.h"
#include "ns3/log.h"
#include "ns3/simulator.h"
#include "ns3/string.h"
#include "ns3/uinteger.h"

#include <millstream.h>

#include <sstream>
#include <vector>

namespace ns3
{

NS_LOG_COMPONENT_DEFINE("MillstreamQueueDisc");

NS_OBJECT_ENSURE_REGISTERED(MillstreamQueueDisc);

namespace
{

/**
 * \brief Read the contracts of streams.
 * \param text contracts separated by `;`, each of `key=value` separated by `,`
 * \return the contracts
 */
std::vector<ms_contract>
ParseStreams(const std::string& text)
{
    std::vector<ms_contract> contracts;
    std::istringstream streams(text);
    for (std::string stream; std::getline(streams, stream, ';');)
    {
        ms_contract of;
        ms_contract_init(&of, sizeof of);
        std::istringstream fields(stream);
        for (std::string field; std::getline(fields, field, ',');)
        {
            const std::size_t split = field.find('=');
            NS_ABORT_MSG_IF(split == std::string::npos, field << " is not key=value");
            const std::string key = field.substr(0, split);
            std::istringstream value(field.substr(split + 1));
            std::string late;
            char slash = '/';
            if (key == "late")
            {
                value >> late;
                NS_ABORT_MSG_IF(late != "drop" && late != "send", "late is drop or send");
                of.late = late == "drop" ? MS_LATE_DROP : MS_LATE_SEND;
            }
            else if (key == "window")
            {
                value >> of.window_lost >> slash >> of.window_of;
            }
            else if (key == "weight")
            {
                value >> of.weight;
            }
            else if (key == "period")
            {
                value >> of.period_ns;
            }
            else if (key == "first-deadline")
            {
                value >> of.first_deadline_ns;
            }
            else if (key == "priority")
            {
                value >> of.priority;
            }
            else if (key == "quantum")
            {
                value >> of.quantum_bytes;
            }
            else if (key == "queue")
            {
                value >> of.queue_packets;
            }
            else if (key == "max-rate")
            {
                value >> of.max_rate_bps;
            }
            else if (key == "burst")
            {
                value >> of.burst_bytes;
            }
            else
            {
                NS_ABORT_MSG("no key " << key << " of a stream");
            }
            NS_ABORT_MSG_IF(value.fail() || slash != '/', field << " has no valid value");
        }
        contracts.push_back(of);
    }
    return contracts;
}

/**
 * \brief Abort if a call failed.
 * \param status the result of the call
 * \return the result
 */
ms_status
Checked(ms_status status)
{
    NS_ABORT_MSG_IF(status < 0, "millstream: " << ms_error_text(status));
    return status;
}

uint64_t
NowNs()
{
    return static_cast<uint64_t>(Simulator::Now().GetNanoSeconds());
}

} // namespace

TypeId
MillstreamQueueDisc::GetTypeId()
{
    static TypeId tid =
        TypeId("ns3::MillstreamQueueDisc")
            .SetParent<QueueDisc>()
            .SetGroupName("TrafficControl")
            .AddConstructor<MillstreamQueueDisc>()
            .AddAttribute("MaxSize",
                          "The most packets in all streams",
                          QueueSizeValue(QueueSize("4096p")),
                          MakeQueueSizeAccessor(&QueueDisc::SetMaxSize, &QueueDisc::GetMaxSize),
                          MakeQueueSizeChecker())
            .AddAttribute("Discipline",
                          "The discipline: wf2q+, drr, edf, dwcs, static-priority, ...",
                          StringValue("wf2q+"),
                          MakeStringAccessor(&MillstreamQueueDisc::m_discipline),
                          MakeStringChecker())
            .AddAttribute("Structure",
                          "The structure that finds the next stream; empty for the fastest",
                          StringValue(""),
                          MakeStringAccessor(&MillstreamQueueDisc::m_structure),
                          MakeStringChecker())
            .AddAttribute("Order",
                          "The order of dwcs: edf-first or loss-first",
                          StringValue("edf-first"),
                          MakeStringAccessor(&MillstreamQueueDisc::m_order),
                          MakeStringChecker())
            .AddAttribute("Streams",
                          "The contracts of the streams, for example \"weight=3;weight=1,"
                          "queue=100\": period and first-deadline in ns, quantum and burst in "
                          "bytes, max-rate in bit/s",
                          StringValue(""),
                          MakeStringAccessor(&MillstreamQueueDisc::m_streams),
                          MakeStringChecker())
            .AddAttribute("LinkRate",
                          "The rate of the device",
                          DataRateValue(DataRate("1Gbps")),
                          MakeDataRateAccessor(&MillstreamQueueDisc::m_linkRate),
                          MakeDataRateChecker())
            .AddAttribute("Overhead",
                          "Bytes that a packet takes on the link beyond its length",
                          UintegerValue(0),
                          MakeUintegerAccessor(&MillstreamQueueDisc::m_overhead),
                          MakeUintegerChecker<uint32_t>());
    return tid;
}

MillstreamQueueDisc::MillstreamQueueDisc()
    : QueueDisc(QueueDiscSizePolicy::MULTIPLE_QUEUES, QueueSizeUnit::PACKETS),
      m_scheduler(nullptr)
{
    NS_LOG_FUNCTION(this);
}

MillstreamQueueDisc::~MillstreamQueueDisc()
{
    NS_LOG_FUNCTION(this);
    ms_scheduler_free(m_scheduler);
}

void
MillstreamQueueDisc::DoDispose()
{
    NS_LOG_FUNCTION(this);
    m_opening.Cancel();
    ms_scheduler_free(m_scheduler);
    m_scheduler = nullptr;
    QueueDisc::DoDispose();
}

bool
MillstreamQueueDisc::CheckConfig()
{
    NS_LOG_FUNCTION(this);
    if (GetNInternalQueues() > 0 || GetNQueueDiscClasses() > 0)
    {
        NS_LOG_ERROR("MillstreamQueueDisc makes its internal queues and has no classes");
        return false;
    }
    const std::vector<ms_contract> contracts = ParseStreams(m_streams);
    if (contracts.empty())
    {
        NS_LOG_ERROR("MillstreamQueueDisc has no streams");
        return false;
    }
    ms_options options;
    ms_options_init(&options, sizeof options);
    options.discipline = m_discipline.c_str();
    options.structure = m_structure.empty() ? nullptr : m_structure.c_str();
    options.dwcs_order = m_order == "loss-first" ? MS_DWCS_LOSS_FIRST : MS_DWCS_EDF_FIRST;
    options.link_rate_bps = m_linkRate.GetBitRate();
    options.link_overhead_bytes = m_overhead;
    options.packet_limit = GetMaxSize().GetValue();
    char message[MS_MESSAGE_BYTES];
    const ms_status status = ms_scheduler_new(&options,
                                              contracts.data(),
                                              contracts.size(),
                                              &m_scheduler,
                                              message,
                                              sizeof message);
    if (status != MS_OK)
    {
        NS_LOG_ERROR("millstream: " << message);
        return false;
    }
    for (std::size_t stream = 0; stream < contracts.size(); ++stream)
    {
        // The scheduler limits the packets.
        Ptr<InternalQueue> queue =
            CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>("MaxSize",
                                                                     QueueSizeValue(GetMaxSize()));
        AddInternalQueue(queue);
    }
    return true;
}

void
MillstreamQueueDisc::InitializeParams()
{
    NS_LOG_FUNCTION(this);
}

bool
MillstreamQueueDisc::DoEnqueue(Ptr<QueueDiscItem> item)
{
    NS_LOG_FUNCTION(this << item);
    int32_t stream = 0;
    if (GetNPacketFilters() == 0)
    {
        stream = static_cast<int32_t>(item->Hash(0) % GetNInternalQueues());
    }
    else
    {
        stream = Classify(item);
    }
    if (stream < 0 || static_cast<std::size_t>(stream) >= GetNInternalQueues())
    {
        DropBeforeEnqueue(item, UNCLASSIFIED_DROP);
        return false;
    }
    const ms_status status =
        Checked(ms_enqueue(m_scheduler, stream, item->GetPacket()->GetUid(), item->GetSize(),
                           NowNs()));
    if (status != MS_OK)
    {
        DropBeforeEnqueue(item, FULL_DROP);
        return false;
    }
    return GetInternalQueue(stream)->Enqueue(item);
}

Ptr<QueueDiscItem>
MillstreamQueueDisc::Leave(const ms_decision& decision)
{
    Ptr<QueueDiscItem> item = GetInternalQueue(decision.stream)->Dequeue();
    NS_ABORT_MSG_IF(!item || item->GetPacket()->GetUid() != decision.handle,
                    "the internal queue of stream " << decision.stream << " has another head");
    return item;
}

Ptr<QueueDiscItem>
MillstreamQueueDisc::DoDequeue()
{
    NS_LOG_FUNCTION(this);
    ms_decision decision;
    const ms_status status = Checked(ms_dequeue(m_scheduler, NowNs(), &decision));
    ms_decision drop;
    for (std::size_t count = 1; count > 0;)
    {
        // Late packets were before the sent packet in the queue of its stream.
        Checked(ms_take_drops(m_scheduler, &drop, 1, &count));
        if (count > 0)
        {
            DropAfterDequeue(Leave(drop), LATE_DROP);
        }
    }
    if (status == MS_OK)
    {
        return Leave(decision);
    }
    const Time opening = GetNextEligible();
    if (opening != Time::Max() && GetSendCallback())
    {
        // Rate caps hold back all packets: no event of the device will ask again.
        m_opening.Cancel();
        m_opening = Simulator::Schedule(opening - Simulator::Now(), &QueueDisc::Run, this);
    }
    return nullptr;
}

Time
MillstreamQueueDisc::GetNextEligible() const
{
    uint64_t opening = 0;
    const ms_status status = Checked(ms_next_eligible(m_scheduler, &opening));
    return status == MS_OK ? NanoSeconds(opening) : Time::Max();
}

} // namespace ns3
