// TCP connections through one bottleneck: with MillstreamQueueDisc, each is a stream with a weight;
// with FqCoDelQueueDisc, all are equal.
//
// Arguments: --queue=millstream|fq_codel --weights=3,1,1,1 --tcp=TcpCubic,TcpCubic,TcpBbr,TcpBbr
// --rate=20Mbps --seconds=20. Prints the goodput of each connection, Mbit/s, the mean time in the
// queue disc, ms, and the number of drops.

#include "millstream-queue-disc.h"

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <sstream>
#include <vector>

using namespace ns3;

namespace
{

double g_sojournMs = 0;
uint64_t g_sojourns = 0;

void
Sojourn(Time time)
{
    g_sojournMs += time.GetSeconds() * 1000;
    ++g_sojourns;
}

/// Classifies by the network of the sender, 10.N.1.0: stream N - 1.
class SenderFilter : public Ipv4PacketFilter
{
    int32_t DoClassify(Ptr<QueueDiscItem> item) const override
    {
        const Ipv4Header& header = StaticCast<Ipv4QueueDiscItem>(item)->GetHeader();
        return static_cast<int32_t>(header.GetSource().Get() >> 16 & 0xff) - 1;
    }
};

} // namespace

int
main(int argc, char* argv[])
{
    std::string queue = "millstream";
    std::string weights = "3,1,1,1";
    std::string tcp = "TcpCubic,TcpCubic,TcpBbr,TcpBbr";
    std::string rate = "20Mbps";
    double seconds = 20;
    CommandLine command;
    command.AddValue("queue", "millstream or fq_codel", queue);
    command.AddValue("weights", "the weight of each connection", weights);
    command.AddValue("tcp", "the congestion control of each connection", tcp);
    command.AddValue("rate", "the rate of the bottleneck", rate);
    command.AddValue("seconds", "the duration", seconds);
    command.Parse(argc, argv);

    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));

    std::string streams;
    uint32_t count = 0;
    std::istringstream list(weights);
    for (std::string one; std::getline(list, one, ','); ++count)
    {
        streams += "weight=" + one + ",queue=50;";
    }
    NodeContainer routers(2);
    NodeContainer senders(count);
    NodeContainer receivers(count);
    InternetStackHelper stack;
    stack.InstallAll();
    std::istringstream controls(tcp);
    for (uint32_t at = 0; at < count; ++at)
    {
        std::string control;
        NS_ABORT_MSG_UNLESS(std::getline(controls, control, ','),
                            "--tcp: " << at << " values, not one for each of " << count
                                      << " weights");
        senders.Get(at)->GetObject<TcpL4Protocol>()->SetAttribute(
            "SocketType",
            TypeIdValue(TypeId::LookupByName("ns3::" + control)));
    }

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", StringValue("5ms"));
    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", StringValue(rate));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
    NetDeviceContainer middle = bottleneck.Install(routers);

    TrafficControlHelper helper;
    if (queue == "millstream")
    {
        helper.SetRootQueueDisc("ns3::MillstreamQueueDisc",
                                "Discipline",
                                StringValue("wf2q+"),
                                "Streams",
                                StringValue(streams),
                                "LinkRate",
                                StringValue(rate));
    }
    else
    {
        helper.SetRootQueueDisc("ns3::FqCoDelQueueDisc");
    }
    QueueDiscContainer disciplines = helper.Install(middle.Get(0));
    disciplines.Get(0)->TraceConnectWithoutContext("SojournTime", MakeCallback(&Sojourn));
    if (queue == "millstream")
    {
        disciplines.Get(0)->AddPacketFilter(CreateObject<SenderFilter>());
    }
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.0");
    addresses.Assign(middle);

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t at = 0; at < count; ++at)
    {
        const std::string net = "10." + std::to_string(at + 1);
        addresses.SetBase((net + ".1.0").c_str(), "255.255.255.0");
        addresses.Assign(access.Install(senders.Get(at), routers.Get(0)));
        addresses.SetBase((net + ".2.0").c_str(), "255.255.255.0");
        Ipv4InterfaceContainer far =
            addresses.Assign(access.Install(routers.Get(1), receivers.Get(at)));
        PacketSinkHelper sink("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), 5000));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(receivers.Get(at)).Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(1), 5000));
        source.Install(senders.Get(at)).Start(MilliSeconds(10 * at));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    for (const auto& sink : sinks)
    {
        std::printf("%.2f ", sink->GetTotalRx() * 8 / seconds / 1e6);
    }
    const QueueDisc::Stats stats = disciplines.Get(0)->GetStats();
    std::printf("%.2f %u\n", g_sojournMs / std::max<uint64_t>(g_sojourns, 1),
                stats.nTotalDroppedPackets);
    Simulator::Destroy();
    return 0;
}
