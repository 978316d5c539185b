// Replays an arrivals CSV through MillstreamQueueDisc on a link of its own, and prints the
// departures CSV of `millstream run`.
//
// Arguments: --discipline, --structure, --order, --streams, --rate=BIT/S, --overhead=BYTES,
// --arrivals=FILE. Streams are called s0, s1, ... in the file.

#include "millstream-queue-disc.h"

#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

using namespace ns3;

namespace
{

/// A packet of the file.
class Item : public QueueDiscItem
{
  public:
    Item(Ptr<Packet> packet, uint32_t stream)
        : QueueDiscItem(packet, Mac48Address(), 0),
          m_stream(stream)
    {
    }

    uint32_t m_stream; //!< The stream in the file.

    void AddHeader() override
    {
    }

    bool Mark() override
    {
        return false;
    }
};

/// Classifies by the stream in the file.
class StreamFilter : public PacketFilter
{
    bool CheckProtocol(Ptr<QueueDiscItem>) const override
    {
        return true;
    }

    int32_t DoClassify(Ptr<QueueDiscItem> item) const override
    {
        return StaticCast<Item>(item)->m_stream;
    }
};

struct Arrival
{
    uint64_t number;
    int64_t ns;
    uint32_t bytes;
};

std::map<uint64_t, Arrival> g_arrivals;
std::map<uint32_t, uint64_t> g_counts;
Ptr<MillstreamQueueDisc> g_disc;
uint64_t g_rate;
uint32_t g_overhead;
EventId g_decision;
Time g_free; //!< The end of the last transmission.

void
Print(Ptr<const QueueDiscItem> item, const char* event)
{
    const Arrival& of = g_arrivals.at(item->GetPacket()->GetUid());
    std::printf("%ld,s%u,%lu,%u,%ld,%s\n",
                Simulator::Now().GetNanoSeconds(),
                StaticCast<const Item>(item)->m_stream,
                of.number,
                of.bytes,
                of.ns,
                event);
}

void
DroppedBefore(Ptr<const QueueDiscItem> item, const char*)
{
    Print(item, "dropped-full");
}

void
DroppedAfter(Ptr<const QueueDiscItem> item, const char*)
{
    Print(item, "dropped-late");
}

void
Decide()
{
    Ptr<QueueDiscItem> item = g_disc->Dequeue();
    if (item)
    {
        Print(item, "sent");
        const uint64_t bits = (uint64_t(item->GetSize()) + g_overhead) * 8;
        const uint64_t ns = (bits * 1000000000 + g_rate - 1) / g_rate;
        g_free = Simulator::Now() + NanoSeconds(ns);
        g_decision = Simulator::Schedule(NanoSeconds(ns), &Decide);
    }
    else if (g_disc->GetNextEligible() != Time::Max())
    {
        g_decision =
            Simulator::Schedule(g_disc->GetNextEligible() - Simulator::Now(), &Decide);
    }
}

void
Arrive(uint32_t stream, uint32_t bytes)
{
    Ptr<Packet> packet = Create<Packet>(bytes);
    g_arrivals[packet->GetUid()] = {g_counts[stream]++, Simulator::Now().GetNanoSeconds(), bytes};
    g_disc->Enqueue(Create<Item>(packet, stream));
    if (g_free <= Simulator::Now())
    {
        // Behind all arrivals of this instant, whose events were scheduled before.
        g_decision.Cancel();
        g_decision = Simulator::ScheduleNow(&Decide);
    }
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string discipline;
    std::string structure;
    std::string order = "edf-first";
    std::string streams;
    std::string arrivals;
    CommandLine command;
    command.AddValue("discipline", "the discipline", discipline);
    command.AddValue("structure", "the structure", structure);
    command.AddValue("order", "the order of dwcs", order);
    command.AddValue("streams", "the contracts", streams);
    command.AddValue("rate", "the link, bit/s", g_rate);
    command.AddValue("overhead", "bytes of a packet beyond its length", g_overhead);
    command.AddValue("arrivals", "the arrivals CSV", arrivals);
    command.Parse(argc, argv);

    g_disc = CreateObjectWithAttributes<MillstreamQueueDisc>("Discipline",
                                                             StringValue(discipline),
                                                             "Structure",
                                                             StringValue(structure),
                                                             "Order",
                                                             StringValue(order),
                                                             "Streams",
                                                             StringValue(streams),
                                                             "LinkRate",
                                                             DataRateValue(DataRate(g_rate)),
                                                             "Overhead",
                                                             UintegerValue(g_overhead));
    g_disc->AddPacketFilter(CreateObject<StreamFilter>());
    g_disc->TraceConnectWithoutContext("DropBeforeEnqueue", MakeCallback(&DroppedBefore));
    g_disc->TraceConnectWithoutContext("DropAfterDequeue", MakeCallback(&DroppedAfter));
    g_disc->Initialize();

    std::ifstream file(arrivals);
    std::string row;
    std::getline(file, row);
    while (std::getline(file, row))
    {
        int64_t ns = 0;
        unsigned stream = 0;
        unsigned bytes = 0;
        NS_ABORT_MSG_IF(std::sscanf(row.c_str(), "%ld,s%u,%u", &ns, &stream, &bytes) != 3, row);
        Simulator::Schedule(NanoSeconds(ns), &Arrive, stream, bytes);
    }
    Simulator::Run();
    const QueueDisc::Stats stats = g_disc->GetStats();
    const uint32_t left = g_disc->GetNPackets();
    std::fprintf(stderr,
                 "%u received, %u sent, %u dropped, %u left\n",
                 stats.nTotalReceivedPackets,
                 stats.nTotalDequeuedPackets - stats.nTotalDroppedPacketsAfterDequeue,
                 stats.nTotalDroppedPackets,
                 left);
    g_disc->Dispose();
    Simulator::Destroy();
    return 0;
}
