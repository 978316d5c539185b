"""A WebAssembly module that consumes CPU time: it counts down and leaves packets unchanged."""

#: Fuel of one turn of the loop, approximately.
FUEL_A_TURN = 8


def _number(value: int) -> bytes:
    """Encodes a number as signed LEB128."""
    out = bytearray()
    while True:
        low, value = value & 0x7F, value >> 7
        done = (value == 0 and not low & 0x40) or (value == -1 and low & 0x40)
        out.append(low if done else low | 0x80)
        if done:
            return bytes(out)


def _section(kind: int, body: bytes) -> bytes:
    return bytes([kind, len(body)]) + body


def _name(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def counting(turns: int, by_byte: int = 0, at: int = 0) -> bytes:
    """Returns a module that counts down from `turns` + `by_byte` × byte `at` of the packet."""
    i32 = 0x7F
    # local 1 = turns + by_byte * packet[at]; the packet is at address 0
    begin = bytes([0x41]) + _number(turns)
    begin += (
        bytes([0x41, 0, 0x2D, 0]) + _number(at) + bytes([0x41]) + _number(by_byte) + b"\x6c\x6a"
    )
    # loop { local 1 -= 1; again if it is not 0 }; local 0
    code = bytes([1, 1, i32]) + begin + bytes([0x21, 1, 0x03, 0x40, 0x20, 1, 0x41, 1])
    code += bytes([0x6B, 0x22, 1, 0x0D, 0, 0x0B, 0x20, 0, 0x0B])
    kinds = {"memory": 2, "packet": 3, "process": 0}
    exports = b"".join(_name(what) + bytes([kind, 0]) for what, kind in kinds.items())
    return (
        b"\0asm\1\0\0\0"
        + _section(1, bytes([1, 0x60, 1, i32, 1, i32]))
        + _section(3, bytes([1, 0]))
        + _section(5, bytes([1, 0, 1]))
        + _section(6, bytes([1, i32, 0, 0x41, 0, 0x0B]))
        + _section(7, bytes([3]) + exports)
        + _section(10, bytes([1, len(code)]) + code)
    )
