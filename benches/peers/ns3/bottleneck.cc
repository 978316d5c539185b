// One bottleneck in ns-3, for comparison with a network of Millstream: TCP senders, a router with a
// queue discipline, TCP receivers.
//
// Arguments: --control=TcpCubic|TcpCubicRfc9438|TcpLinuxReno --queue=fifo|codel|fq_codel
// --rate=BITS/S --rtt=NS --limit=PACKETS --stop=NS --starts=NS,NS,... Prints the bytes that the
// receivers got and the mean time in the queue discipline and the device's queue, ns.

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <cstdio>
#include <deque>
#include <sstream>
#include <vector>

using namespace ns3;

namespace
{

/// CUBIC as the RFCs have it, where this ns-3 differs: an acknowledgement opens the window by at
/// most two segments in slow start (RFC 3465), and the window is at least that of Reno (RFC 9438,
/// section 4.3).
class TcpCubicRfc9438 : public TcpCubic
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("ns3::TcpCubicRfc9438")
                                .SetParent<TcpCubic>()
                                .AddConstructor<TcpCubicRfc9438>();
        return tid;
    }

    void IncreaseWindow(Ptr<TcpSocketState> tcb, uint32_t segmentsAcked) override
    {
        if (tcb->m_cWnd < tcb->m_ssThresh)
        {
            TcpCubic::IncreaseWindow(tcb, std::min<uint32_t>(segmentsAcked, 2));
            return;
        }
        const double segment = tcb->m_segmentSize;
        const double window = tcb->m_cWnd / segment;
        if (m_reno == 0)
        {
            m_reno = window;
        }
        // RFC 9438, section 4.3: slower than Reno up to the window before the loss, then as Reno.
        m_reno += (m_reno < m_before ? 3 * 0.3 / 1.7 : 1) * segmentsAcked / window;
        TcpCubic::IncreaseWindow(tcb, segmentsAcked);
        tcb->m_cWnd = std::max<uint32_t>(tcb->m_cWnd, m_reno * segment);
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t bytesInFlight) override
    {
        m_before = tcb->m_cWnd / static_cast<double>(tcb->m_segmentSize);
        m_reno = 0;
        return TcpCubic::GetSsThresh(tcb, bytesInFlight);
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<TcpCubicRfc9438>(this);
    }

  private:
    /// Reno's window in this congestion avoidance, segments; 0 before it.
    double m_reno = 0;
    /// The window before the last loss, segments.
    double m_before = 0;
};

NS_OBJECT_ENSURE_REGISTERED(TcpCubicRfc9438);

double g_sojournNs = 0;
uint64_t g_sojourns = 0;
double g_deviceNs = 0;
uint64_t g_devicePackets = 0;
std::deque<Time> g_entered;

void
Sojourn(Time time)
{
    g_sojournNs += time.GetNanoSeconds();
    ++g_sojourns;
}

void
DeviceEnqueue(Ptr<const Packet>)
{
    g_entered.push_back(Simulator::Now());
}

void
DeviceDequeue(Ptr<const Packet>)
{
    g_deviceNs += (Simulator::Now() - g_entered.front()).GetNanoSeconds();
    g_entered.pop_front();
    ++g_devicePackets;
}

} // namespace

int
main(int argc, char* argv[])
{
    std::string control = "TcpCubic";
    std::string queue = "fifo";
    std::string starts = "0";
    uint64_t rate = 20000000;
    int64_t rtt = 40000000;
    int64_t stop = 60000000000;
    uint32_t limit = 100;
    CommandLine command;
    command.AddValue("control", "the congestion control", control);
    command.AddValue("queue", "the queue discipline", queue);
    command.AddValue("starts", "when each sender starts, ns", starts);
    command.AddValue("rate", "the bottleneck, bit/s", rate);
    command.AddValue("rtt", "the round-trip time, ns", rtt);
    command.AddValue("stop", "when senders stop, ns", stop);
    command.AddValue("limit", "the limit of the queue, packets", limit);
    command.Parse(argc, argv);

    Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::" + control));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(16 << 20));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocketBase::Sack", BooleanValue(true));
    Config::SetDefault("ns3::TcpSocketBase::Timestamp", BooleanValue(true));
    Config::SetDefault("ns3::TcpCubic::HyStart", BooleanValue(false));

    std::vector<int64_t> times;
    std::stringstream list(starts);
    for (std::string one; std::getline(list, one, ',');)
    {
        times.push_back(std::stoll(one));
    }

    NodeContainer routers;
    routers.Create(2);
    NodeContainer senders;
    senders.Create(times.size());
    NodeContainer receivers;
    receivers.Create(times.size());
    InternetStackHelper stack;
    stack.InstallAll();

    // A quarter of the round trip is before the bottleneck, a quarter behind it.
    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", TimeValue(NanoSeconds(rtt / 4)));
    access.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("10000p"));
    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    bottleneck.SetChannelAttribute("Delay", TimeValue(NanoSeconds(0)));
    bottleneck.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));

    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.0");
    NetDeviceContainer middle = bottleneck.Install(routers);
    TrafficControlHelper control_of_traffic;
    const std::string packets = std::to_string(limit) + "p";
    if (queue == "fifo")
    {
        control_of_traffic.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", StringValue(packets));
    }
    else if (queue == "codel")
    {
        control_of_traffic.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", StringValue(packets));
    }
    else
    {
        control_of_traffic.SetRootQueueDisc("ns3::FqCoDelQueueDisc",
                                            "MaxSize",
                                            StringValue(packets));
    }
    QueueDiscContainer disciplines = control_of_traffic.Install(middle.Get(0));
    addresses.Assign(middle);
    disciplines.Get(0)->TraceConnectWithoutContext("SojournTime", MakeCallback(&Sojourn));
    Ptr<Queue<Packet>> device = DynamicCast<PointToPointNetDevice>(middle.Get(0))->GetQueue();
    device->TraceConnectWithoutContext("Enqueue", MakeCallback(&DeviceEnqueue));
    device->TraceConnectWithoutContext("Dequeue", MakeCallback(&DeviceDequeue));

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t at = 0; at < times.size(); ++at)
    {
        const std::string net = "10." + std::to_string(at + 1);
        addresses.SetBase((net + ".1.0").c_str(), "255.255.255.0");
        addresses.Assign(access.Install(senders.Get(at), routers.Get(0)));
        addresses.SetBase((net + ".2.0").c_str(), "255.255.255.0");
        Ipv4InterfaceContainer far =
            addresses.Assign(access.Install(routers.Get(1), receivers.Get(at)));
        const uint16_t port = 5000;
        PacketSinkHelper sink("ns3::TcpSocketFactory",
                              InetSocketAddress(Ipv4Address::GetAny(), port));
        sinks.push_back(DynamicCast<PacketSink>(sink.Install(receivers.Get(at)).Get(0)));
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(far.GetAddress(1), port));
        source.SetAttribute("MaxBytes", UintegerValue(0));
        source.SetAttribute("SendSize", UintegerValue(1448));
        ApplicationContainer sending = source.Install(senders.Get(at));
        sending.Start(NanoSeconds(times[at]));
        sending.Stop(NanoSeconds(stop));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    Simulator::Stop(NanoSeconds(stop));
    Simulator::Run();
    uint64_t bytes = 0;
    for (const auto& sink : sinks)
    {
        bytes += sink->GetTotalRx();
    }
    const double delay = g_sojournNs / std::max<uint64_t>(g_sojourns, 1) +
                         g_deviceNs / std::max<uint64_t>(g_devicePackets, 1);
    std::printf("%lu %.0f\n", bytes, delay);
    Simulator::Destroy();
    return 0;
}
