#!/usr/bin/env python3
"""GStreamer's RTSP server with one H.264 file, for the media server's peer benchmark.

Usage: gst_rtsp.py FILE.mp4. Prints its address, rtsp://ADDRESS/clip, and serves until terminated.
Each client has a pipeline of its own, since clients start at different times. Needs python3-gi and
gir1.2-gst-rtsp-server-1.0.
"""

import contextlib
import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402


def main() -> None:
    """Serves the file."""
    Gst.init(None)
    server = GstRtspServer.RTSPServer()
    server.set_address("127.0.0.1")
    server.set_service("0")
    factory = GstRtspServer.RTSPMediaFactory()
    source = f'filesrc location="{sys.argv[1]}" ! qtdemux ! h264parse'
    factory.set_launch(f"( {source} ! rtph264pay name=pay0 pt=96 mtu=1400 )")
    server.get_mount_points().add_factory("/clip", factory)
    server.attach(None)
    print(f"rtsp://127.0.0.1:{server.get_bound_port()}/clip", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        GLib.MainLoop().run()


if __name__ == "__main__":
    main()
