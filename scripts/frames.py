"""Frames of the soak test, valid and invalid."""

import socket

#: Hardware addresses of the router's ports.
MACS = {"a1": "02:00:00:00:00:a1", "f1": "02:00:00:00:00:f1", "b1": "02:00:00:00:00:b1"}


def frame(
    port: str, to: str, dscp: int, size: int, hops: int = 9, source: str = "10.1.0.2"
) -> bytes:
    """Builds a UDP/IPv4 frame for a port of the router."""
    addresses = socket.inet_aton(source) + socket.inet_aton(to)
    header = bytes([0x45, dscp << 2]) + (size - 14).to_bytes(2) + bytes([0, 0, 0, 0, hops, 17])
    total = sum(int.from_bytes((header + addresses)[k : k + 2]) for k in range(0, 18, 2))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = (~((total & 0xFFFF) + (total >> 16)) & 0xFFFF).to_bytes(2)
    ethernet = (
        bytes.fromhex(MACS[port].replace(":", "")) + bytes.fromhex("020000000004") + b"\x08\x00"
    )
    udp = bytes([0, 9, 0, 9]) + (size - 34).to_bytes(2) + bytes(2)
    return (ethernet + header + checksum + addresses + udp).ljust(size, b"\0")


def odd_frames() -> list[bytes]:
    """Returns frames that are dropped, each for another reason, or answered."""
    own = "10.3.0.2"
    plain = frame("f1", "10.2.0.1", 0, 60, source=own)
    return [
        frame(
            "f1", "10.2.0.1", 0, 60, hops=1, source=own
        ),  # its sender is told, if it can be found
        frame("f1", "9.9.9.9", 0, 60, source=own),  # no route
        frame("f1", "10.3.0.77", 0, 60, source="10.1.0.2"),  # unknown host
        frame("f1", "10.2.0.1", 10, 60, source=own),  # by a path that does not lead there
        frame("f1", "10.2.0.1", 20, 60, source=own),  # by a path that comes and goes
        plain[:24] + b"\0\0" + plain[26:],  # a wrong checksum
        plain[:14] + b"\x4f" + plain[15:],  # a header that is longer than it should be
        b"\xff" + plain[1:],  # for others
        plain[:20],
        bytes(60),
        bytes.fromhex("ffffffffffff0200000000040806") + bytes(46),
    ]
