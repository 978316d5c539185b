// live555's RTSP server with one H.264 elementary stream, for the media server's peer benchmark.
//
// Usage: live555_rtsp FILE.264. Prints its address, rtsp://ADDRESS/clip, and serves until killed.
// Each client has a stream of its own. Sockets are bound to the loopback address.

#include <BasicUsageEnvironment.hh>
#include <GroupsockHelper.hh>
#include <liveMedia.hh>

#include <cstdio>
#include <cstdlib>

int main(int, char** arguments) {
    ReceivingInterfaceAddr = SendingInterfaceAddr = htonl(INADDR_LOOPBACK);
    TaskScheduler* scheduler = BasicTaskScheduler::createNew();
    UsageEnvironment* environment = BasicUsageEnvironment::createNew(*scheduler);
    RTSPServer* server = RTSPServer::createNew(*environment, 0);
    if (server == nullptr) {
        std::fprintf(stderr, "%s\n", environment->getResultMsg());
        return EXIT_FAILURE;
    }
    // The largest frame of the file must fit.
    OutPacketBuffer::maxSize = 1 << 20;
    ServerMediaSession* session = ServerMediaSession::createNew(*environment, "clip");
    session->addSubsession(
        H264VideoFileServerMediaSubsession::createNew(*environment, arguments[1], False));
    server->addServerMediaSession(session);
    char* url = server->ipv4rtspURL(session);
    std::printf("%s\n", url);
    std::fflush(stdout);
    delete[] url;
    scheduler->doEventLoop();
}
