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
    """Returns frames that the router drops, each for a different reason, or answers."""
    own = "10.3.0.2"
    plain = frame("f1", "10.2.0.1", 0, 60, source=own)
    return [
        frame(
            "f1", "10.2.0.1", 0, 60, hops=1, source=own
        ),  # hop limit used up: an ICMP error, if its sender resolves
        frame("f1", "9.9.9.9", 0, 60, source=own),  # no route
        frame("f1", "10.3.0.77", 0, 60, source="10.1.0.2"),  # unknown host
        frame("f1", "10.2.0.1", 10, 60, source=own),  # its path has another output port
        frame("f1", "10.2.0.1", 20, 60, source=own),  # its path exists in some files only
        plain[:24] + b"\0\0" + plain[26:],  # a wrong checksum
        plain[:14] + b"\x4f" + plain[15:],  # an IPv4 header length of 60 bytes
        b"\xff" + plain[1:],  # another destination address
        plain[:20],
        bytes(60),
        bytes.fromhex("ffffffffffff0200000000040806") + bytes(46),
    ]
