#!/usr/bin/env python3
"""Plays each codec that the media server serves with each player; a part of `make soak`.

Usage: scripts/players.py [--players P,...] [--streams S,...] [--logs DIR]. MILLSTREAM names the
program, default target/debug/millstream. `scripts/test-tools.sh players` installs the players:
ffplay, mpv, GStreamer, VLC and Chromium; one that is missing is left out.

Each player plays all streams at once, without a screen or a sound card. Its decoded frames of video
and of audio must be as many as the server sent, and those of files as many as the film has. It may
print no warning but those of PERMITTED, which have another cause. The table has decoded frames of
video and of audio for each cell, or why the player does not play the stream. Exit status 1: a cell
differs.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Frames of the film, 25 a second, and the least that a player gets of a live stream, frames of
#: video and packets of audio: it joins late, at a key frame.
FRAMES, LEAST_LIVE, LEAST_AUDIO = 200, 75, 20
#: Seconds that a player has; one that does not end by itself has less.
LIMIT, STAYS = 60, {"chromium": 45}
#: Frames at the end of a track that a player may keep: Chromium shows one when the next arrives,
#: and ffplay may end before the last one is counted.
HELD = {"chromium": 1, "ffplay": 1}


@dataclass
class Stream:
    """A stream: its source in the scenario; of a live one, the film and how it is encoded."""

    source: str
    audio: str = ""
    publisher: str = ""
    film: str = "h264.mp4"


def film(file: str, more: str = "") -> str:
    """Returns the source of a file that ends."""
    return f'kind = "mpeg", file = "{file}"{more}'


def live(codec: str, audio: str) -> str:
    """Returns the source of a live stream."""
    return f'kind = "live", rate = "2 Mbit/s", codec = "{codec}", audio = "{audio}", wait = "1 s"'


WRAPPED = ', payload = "mpeg-ts"'
STREAMS = {
    "h264": Stream(film("h264.mp4")),
    "h264-b-frames": Stream(film("b-frames.mp4")),
    "h265-b-frames": Stream(film("h265-b-frames.mp4")),
    "av1": Stream(film("av1.ivf")),
    "vp8": Stream(film("vp8.ivf")),
    "vp9": Stream(film("vp9.ivf")),
    "mpeg1": Stream(film("mpeg1.mpg")),
    "mpeg2": Stream(film("mpeg2.mpg")),
    "h264-aac": Stream(film("aac.ts"), "aac"),
    "h264-mp3": Stream(film("mp3.ts"), "mp3"),
    "mpeg2-mp2": Stream(film("mp2.ts"), "mp2"),
    "ts-h264": Stream(film("b-frames.mp4", WRAPPED)),
    "ts-h265": Stream(film("h265-b-frames.mp4", WRAPPED)),
    "ts-mpeg2": Stream(film("mpeg2.mpg", WRAPPED)),
    "live-h264-aac": Stream(live("h264", "aac"), "aac", "-c:v copy -c:a aac -b:a 96k"),
    "live-h264-opus": Stream(live("h264", "opus"), "opus", "-c:v copy -c:a libopus"),
    "live-h264-pcmu": Stream(live("h264", "pcmu"), "pcmu", "-c:v copy -c:a pcm_mulaw -ar 8000"),
    "live-h264-pcma": Stream(live("h264", "pcma"), "pcma", "-c:v copy -c:a pcm_alaw -ar 8000"),
    "live-h265-aac": Stream(live("h265", "aac"), "aac", "-c:v copy -c:a aac -b:a 96k", "h265.mp4"),
    "live-vp8-opus": Stream(live("vp8", "opus"), "opus", "-c:v copy -c:a libopus", "vp8.webm"),
    "live-vp9-opus": Stream(
        live("vp9", "opus"), "opus", "-c:v copy -strict -2 -c:a libopus", "vp9.webm"
    ),
    "live-mpeg2-mp2": Stream(
        live("mpeg", "mpeg"),
        "mp2",
        "-c:v mpeg2video -g 12 -b:v 600k -c:a mp2 -b:a 96k -pkt_size 1300",
    ),
}
#: Audio that WebRTC has.
BROWSER_AUDIO = ("opus", "pcmu", "pcma")
PLAYERS = ("ffplay", "mpv", "gstreamer", "vlc", "chromium")
PROGRAMS = {"gstreamer": "gst-launch-1.0", "vlc": "cvlc"}
#: Lines of a player's log that are warnings.
WARNINGS = {
    "ffplay": r"\[(warning|error|fatal|panic)\]",
    "mpv": r"^(?!\[ffmpeg\] Parsed_|\[ffmpeg\] Opening)",
    "gstreamer": r" (WARN|ERROR) |^(WARNING|ERROR)",
    "vlc": r" (warning|error): ",
    "chromium": r"Content Security Policy|Uncaught|:ERROR:.*(media/|webrtc/)",
}
#: Warnings with a cause outside of the server, and why.
PERMITTED = {
    # SDL's driver without a screen has none. ffmpeg says this of VP9 from any server.
    "ffplay": r"hardware accelerated renderer|VP9 support is still experimental",
    # The same with the servers of live555 and GStreamer.
    "mpv": r"No video PTS|Invalid video timestamp|VP9 support is still experimental",
    # Sound without a volume control; decoders of MPEG video that name no colours; the resampler;
    # the end of the film. The cause of decreasing times, of MPEG-2 with sound, is not known.
    "gstreamer": r"playsink|[Vv]olume|colorimetry|color matrix|exact taps|interrupted|timed out"
    r"|decreasing timestamp",
    # No desktop; each frame of a transport stream announces that its counter may jump.
    "vlc": r"dbus|interface|pulse|main mux|discontinuity indicator",
    # No sound card; the end of the session; G.711 has no feedback for congestion control.
    "chromium": r"audio/alsa|DtlsTransportState::kClosed|Inconsistent congestion|neteq_impl",
}


def reason(player: str, name: str) -> str:
    """Returns why a player does not play a stream; empty if it does."""
    # Debian's VLC has no live555: its rtsp:// is SAT>IP.
    if player == "vlc" and not name.startswith("ts-"):
        return "transport streams only"
    if player == "chromium" and name.startswith("ts-"):
        return "not by WebRTC"
    if player == "chromium" and "mpeg" in name:
        return "no MPEG video"
    if player == "chromium" and "h265" in name:
        return "no H.265 without hardware"
    # ffmpeg 5.1 and GStreamer 1.22 of Debian 12 have no payload format of AV1.
    if player != "chromium" and "av1" in name:
        return "no AV1 over RTP"
    if player == "chromium" and name in ("h264-b-frames", "h264-aac", "h264-mp3"):
        return "no B-frames"
    return ""


def make_films(folder: Path) -> None:
    """Makes the films, and the sound of six seconds that some have."""
    clip = str(ROOT / "examples/data/clip.mpg")
    tone = f"aevalsrc=0.3*sin(2*PI*(200+100*floor(t*7))*t):s=48000:d={FRAMES // 25}"
    encoded = f"-an -vf scale=176:144 -threads 1 -frames:v {FRAMES}"
    for file, options in {
        "h264.mp4": "-c:v libx264 -g 25 -bf 0 -b:v 300k",
        "b-frames.mp4": "-c:v libx264 -g 25 -bf 2 -b:v 300k",
        "h265.mp4": "-c:v libx265 -b:v 300k -tag:v hvc1 -x265-params"
        " log-level=error:keyint=25:bframes=0",
        "h265-b-frames.mp4": "-c:v libx265 -b:v 300k -tag:v hvc1 -x265-params"
        " log-level=error:keyint=25",
        "av1.ivf": "-c:v libsvtav1 -preset 10 -g 25 -b:v 300k",
        "vp8.ivf": "-c:v libvpx -auto-alt-ref 0 -deadline realtime -cpu-used 8 -g 25 -b:v 300k",
        "vp9.ivf": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 25 -b:v 300k",
        "mpeg1.mpg": "-c:v mpeg1video -g 12 -bf 2 -b:v 600k",
        "mpeg2.mpg": "-c:v mpeg2video -g 12 -bf 2 -b:v 600k",
    }.items():
        run = f"ffmpeg -v error -stream_loop -1 -i {clip} {encoded} {options} {file}"
        subprocess.run(run.split(), cwd=folder, check=True)
    for name in ("vp8", "vp9"):
        copy = f"ffmpeg -v error -i {name}.ivf -c copy {name}.webm"
        subprocess.run(copy.split(), cwd=folder, check=True)
    for file, video, audio in (
        ("aac.ts", "b-frames.mp4", "aac"),
        ("mp3.ts", "b-frames.mp4", "libmp3lame"),
        ("mp2.ts", "mpeg2.mpg", "mp2"),
    ):
        both = ["ffmpeg", "-v", "error", "-i", video, "-f", "lavfi", "-i", tone]
        both += f"-map 0:v -map 1:a -c:v copy -c:a {audio} -b:a 96k {file}".split()
        subprocess.run(both, cwd=folder, check=True)


class Server:
    """A server of all streams, and the publishers of the live ones."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        """Starts the server."""
        text = '[media]\nlisten = "127.0.0.1:0"\nhttp = "127.0.0.1:0"\nwebrtc = "127.0.0.1:0"\n'
        text += 'placement = "ni"\nsessions-per-address = 64\n[link]\nrate = "50 Mbit/s"\n'
        text += 'overhead = 28\n[scheduler]\ndiscipline = "dwcs"\n'
        text += '[scenario]\nduration = "1 s"\n'
        for name in names:
            text += f'[[stream]]\nname = "{name}"\nperiod = "40 ms"\nlate = "drop"\n'
            text += f'first-deadline = "1 s"\nsource = {{ {STREAMS[name].source} }}\n'
        (folder / "media.toml").write_text(text)
        program = os.environ.get("MILLSTREAM", str(ROOT / "target/debug/millstream"))
        self.log = folder / "server.log"
        self.process: subprocess.Popen[Any] = subprocess.Popen(
            [program, "serve", str(folder / "media.toml")], stderr=self.log.open("w"), text=True
        )
        end = time.monotonic() + 60
        while "metrics" not in self.log.read_text():
            assert time.monotonic() < end and self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        addresses = re.findall(r"(rtsp|http)://([^/]*)/(\w*)", self.log.read_text())
        self.rtsp = next(address for scheme, address, _ in addresses if scheme == "rtsp")
        self.webrtc = next(address for _, address, path in addresses if path == "watch")
        self.http = next(address for scheme, address, path in addresses if scheme + path == "http")
        self.folder, self.publishers = folder, list[subprocess.Popen[Any]]()

    def metrics(self, name: str) -> dict[str, int]:
        """Returns the values of a metric by stream."""
        with urllib.request.urlopen(f"http://{self.http}/metrics") as response:
            lines = response.read().decode().splitlines()
        found = (re.fullmatch(name + r'{stream="([^"]*)"[^}]*} (\d+)', line) for line in lines)
        return {match[1]: int(match[2]) for match in found if match}

    def publish(self, names: list[str], times: int) -> None:
        """Starts the publishers and waits for their first frames; repeats the film."""
        seconds = times * FRAMES // 25
        tone = f"sine=frequency=440:sample_rate=48000:duration={seconds}"
        for name in names:
            # The server drops what a publisher that starved sends beyond its burst.
            command = ["nice", "-n", "-10"] if os.geteuid() == 0 else []
            command += ["ffmpeg", "-v", "error", "-re", "-stream_loop", f"{times - 1}"]
            command += ["-i", STREAMS[name].film, "-re", "-f", "lavfi"]
            command += ["-i", tone, "-map", "0:v", "-map", "1:a"]
            command += STREAMS[name].publisher.split()
            command += ["-f", "rtsp", "-rtsp_transport", "tcp", f"rtsp://{self.rtsp}/{name}"]
            self.publishers.append(subprocess.Popen(command, cwd=self.folder))
        end = time.monotonic() + 30
        present: dict[str, int] = {}
        while not all(present.get(name) for name in names):
            assert time.monotonic() < end, f"no publisher: {present}"
            time.sleep(0.05)
            present = self.metrics("millstream_media_live_publishers")

    def end(self) -> None:
        """Ends the server and its publishers."""
        for process in [*self.publishers, self.process]:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            process.wait(timeout=30)


def command(player: str, server: Server, name: str, home: Path) -> list[str]:
    """Returns a player's command."""
    url = f"rtsp://{server.rtsp}/{name}"
    filters = ("showinfo", "ashowinfo")
    if player == "ffplay":
        options = "-hide_banner -nostats -noframedrop -autoexit -loglevel level+info"
        shown = ["-vf", filters[0], "-af", filters[1]]
        return ["ffplay", *options.split(), "-rtsp_transport", "tcp", *shown, url]
    if player == "mpv":
        options = "--no-config --vo=null --ao=null --framedrop=no --rtsp-transport=tcp"
        shown = [f"--vf=lavfi=[{filters[0]}]", f"--af=lavfi=[{filters[1]}]"]
        return ["mpv", *options.split(), "--msg-level=all=warn,ffmpeg=v", *shown, url]
    if player == "gstreamer":
        sinks = [f"{of}-sink=fakesink name={of} sync=true" for of in ("video", "audio")]
        return ["gst-launch-1.0", "playbin", f"uri={url}", "flags=video+audio", *sinks]
    if player == "vlc":
        options = "-v --play-and-exit --no-audio --live-caching=5000 --sout"
        # VLC does not run as root.
        user = "setpriv --reuid=65534 --regid=65534 --clear-groups" if os.geteuid() == 0 else ""
        received = f"std{{access=file,mux=dummy,dst={home / name}.received}}"
        both = f"#duplicate{{dst={received},dst=display}}"
        return [*user.split(), "cvlc", *options.split(), both, "--vout", "dummy", url]
    options = "--headless --no-sandbox --disable-gpu --enable-logging=stderr"
    options += f" --autoplay-policy=no-user-gesture-required --user-data-dir={home / name}"
    page = f"http://{server.webrtc}/watch/{name}#stats"
    return ["chromium", *options.split(), page]


def counts(player: str, log: str, audio: str) -> tuple[int, int]:
    """Returns the decoded frames of video and audio by a player's log."""
    if player in ("ffplay", "mpv"):
        found = re.findall(r"Parsed_(a?)showinfo.* n: *\d+ ", log)
        return found.count(""), found.count("a")
    if player == "gstreamer":
        found = re.findall(r"chain_unlocked:<(video|audio)> got times", log)
        return found.count("video"), found.count("audio")
    # It drops pictures that a busy machine decodes too late.
    video = re.findall(r'"kind":"video".*"framesDecoded":(\d+),"framesDropped":(\d+)', log)
    # A browser counts packets of audio. It gets none in other codecs.
    sound = re.findall(r'"kind":"audio".*"packetsReceived":(\d+)', log)
    with_sound = bool(sound) and audio in BROWSER_AUDIO
    return sum(map(int, video[-1])) if video else 0, int(sound[-1]) if with_sound else 0


@contextlib.contextmanager
def serving(folder: Path, names: list[str], times: int) -> Iterator[Server]:
    """Serves the streams, and publishes the live ones: the film several times."""
    server = Server(folder, names)
    try:
        server.publish([name for name in names if STREAMS[name].publisher], times)
        yield server
    finally:
        server.end()


def play(player: str, folder: Path, names: list[str]) -> dict[str, tuple[str, list[str]]]:
    """Plays the streams with a player; returns each one's cell and what is wrong."""
    home = folder / f"{player}-home"
    home.mkdir()
    home.chmod(0o777)
    environment = {
        **os.environ,
        **{"SDL_VIDEODRIVER": "dummy", "SDL_AUDIODRIVER": "dummy", "HOME": str(home)},
        **{"GST_DEBUG": "2,basesink:5", "GST_DEBUG_NO_COLOR": "1"},
    }
    if player == "gstreamer":
        # Scans the plugins, which prints warnings of those that need other libraries.
        subprocess.run(["gst-inspect-1.0"], env=environment, capture_output=True, check=False)
    # Chromium takes seconds to start.
    with serving(folder, names, 4 if player == "chromium" else 1) as server:
        playing = {}
        for name in names:
            log = (home / f"{name}.log").open("w")
            playing[name] = subprocess.Popen(
                command(player, server, name, home),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                text=True,
            )
        end = time.monotonic() + STAYS.get(player, LIMIT)
        while time.monotonic() < end and any(one.poll() is None for one in playing.values()):
            time.sleep(0.1)
        for one in playing.values():
            if one.poll() is None:
                one.terminate()
            one.wait(timeout=30)
        sent = server.metrics("millstream_media_frame_delay_seconds_count")
    return {
        name: judge(
            player,
            name,
            (home / f"{name}.log").read_text(errors="replace"),
            home / f"{name}.received",
            sent,
        )
        for name in names
    }


def judge(
    player: str, name: str, log: str, received: Path, sent: dict[str, int]
) -> tuple[str, list[str]]:
    """Returns the cell of a stream, and what is wrong. VLC writes what it plays to a file."""
    stream = STREAMS[name]
    video, audio = counts(player, log, stream.audio)
    if received.exists():
        count = "ffprobe -v error -count_frames -show_entries stream=nb_read_frames -of flat"
        probed = subprocess.run([*count.split(), str(received)], capture_output=True, check=True)
        found = re.search(rb'nb_read_frames="(\d+)"', probed.stdout)
        video = int(found[1]) if found else 0
    sent_video, sent_audio = sent.get(name, 0), sent.get(f"{name}/audio", 0)
    wrong = []
    if not sent_video - HELD.get(player, 0) <= video <= sent_video:
        wrong.append(f"{video} of {sent_video} frames of video decoded")
    if stream.publisher and sent_video < LEAST_LIVE:
        wrong.append(f"only {sent_video} frames of video sent")
    if not stream.publisher and sent_video != FRAMES:
        wrong.append(f"{sent_video} of {FRAMES} frames of video sent")
    # Packets of these codecs have several frames.
    several = stream.publisher and stream.audio in ("aac", "mp2") and player != "chromium"
    least = 2 * sent_audio if several else sent_audio - HELD.get(player, 0)
    if not least <= audio <= (8 * sent_audio if several else sent_audio):
        wrong.append(f"{audio} of {sent_audio} frames of audio decoded")
    wanted = stream.audio and (player != "chromium" or stream.audio in BROWSER_AUDIO)
    if wanted and sent_audio < LEAST_AUDIO:
        wrong.append(f"only {sent_audio} frames of audio sent")
    # After the end GStreamer asks for sessions that are gone.
    lines = log.split("Got EOS from element")[0].splitlines()
    warnings = [line for line in lines if re.search(WARNINGS[player], line)]
    warnings = [line for line in warnings if not re.search(PERMITTED[player], line)]
    if warnings:
        wrong.append(f"{len(warnings)} warnings, the first: {warnings[0][:200]}")
    cell = f"{video} + {audio}" if stream.audio else str(video)
    return cell + (" (differs)" if wrong else ""), wrong


def main() -> None:
    """Plays everything; prints the table."""
    parser = argparse.ArgumentParser(description="players of the media server's streams")
    parser.add_argument("--players", type=lambda text: text.split(","), default=list(PLAYERS))
    parser.add_argument("--logs", type=Path, help="an empty directory that keeps the logs")
    parser.add_argument("--streams", type=lambda text: text.split(","), default=list(STREAMS))
    arguments = parser.parse_args()
    cells: dict[tuple[str, str], str] = {}
    differences = []
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.logs or Path(name)
        folder.chmod(0o755)
        make_films(folder)
        for player in arguments.players:
            if not shutil.which(PROGRAMS.get(player, player)):
                print(f"{player} is not installed", file=sys.stderr)
                cells |= {(player, stream): "not installed" for stream in arguments.streams}
                continue
            reasons = {stream: reason(player, stream) for stream in arguments.streams}
            played = play(player, folder, [stream for stream, why in reasons.items() if not why])
            for stream, why in reasons.items():
                cell, wrong = played.get(stream, (why, []))
                cells[player, stream] = cell
                differences += [f"{stream} by {player}: {what}" for what in wrong]
    print("| stream | " + " | ".join(arguments.players) + " |")
    print("|---|" + "---|" * len(arguments.players))
    for stream in arguments.streams:
        row = (cells[player, stream] for player in arguments.players)
        print(f"| {stream} | " + " | ".join(row) + " |")
    for difference in differences:
        print(difference, file=sys.stderr)
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
