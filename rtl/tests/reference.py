"""The engine as the reference: crates/millstream-hw through ctypes."""

import ctypes
import os

DWCS, EDF, STATIC, TAG = range(4)


class Load(ctypes.Structure):
    """A contract; matches `Load` in model.rs."""

    _fields_ = [
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint16),
        ("priority", ctypes.c_uint16),
        ("weight", ctypes.c_uint16),
        ("x", ctypes.c_uint8),
        ("y", ctypes.c_uint8),
        ("drop", ctypes.c_uint8),
        ("first", ctypes.c_uint8),
    ]


class Attributes(ctypes.Structure):
    """A stream's state; matches `Attributes` in model.rs."""

    _fields_ = [
        ("deadline", ctypes.c_uint64),
        ("arrival", ctypes.c_uint64),
        ("y", ctypes.c_uint64),
        ("missed", ctypes.c_uint64),
        ("violations", ctypes.c_uint64),
        ("serviced", ctypes.c_uint64),
        ("dropped", ctypes.c_uint64),
        ("x", ctypes.c_uint32),
        ("waiting", ctypes.c_uint32),
    ]


def _library():
    library = ctypes.CDLL(os.environ["MILLSTREAM_HW"])
    handle, u64, u32 = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
    flag = ctypes.c_bool
    for name, result, arguments in [
        ("new", handle, [ctypes.c_uint8, flag, flag]),
        ("free", None, [handle]),
        ("load", ctypes.c_int, [handle, ctypes.POINTER(Load)]),
        ("enqueue", ctypes.c_int, [handle, u64, u32, u32]),
        ("charge", None, [handle, u64]),
        ("decide", ctypes.c_int, [handle, u64]),
        ("attributes", ctypes.c_int, [handle, u32, ctypes.POINTER(Attributes)]),
    ]:
        function = getattr(library, f"millstream_hw_{name}")
        function.restype, function.argtypes = result, arguments
    return library


class Reference:
    """The reference: the engine's disciplines with queues."""

    _library = None

    def __init__(self, mode, lowest_denominator=False, rtas99=False):
        Reference._library = Reference._library or _library()
        self._handle = self._library.millstream_hw_new(mode, lowest_denominator, rtas99)
        assert self._handle, f"no mode {mode}"

    def __del__(self):
        self._library.millstream_hw_free(self._handle)

    def load(self, load):
        assert self._library.millstream_hw_load(self._handle, load) >= 0, "a contract refused"

    def enqueue(self, now, stream):
        assert self._library.millstream_hw_enqueue(self._handle, now, stream, 1) == 0

    def charge(self, now):
        self._library.millstream_hw_charge(self._handle, now)

    def decide(self, now):
        """Makes a decision: returns the stream whose head is sent, or None."""
        stream = self._library.millstream_hw_decide(self._handle, now)
        return None if stream < 0 else stream

    def attributes(self, stream):
        attributes = Attributes()
        result = self._library.millstream_hw_attributes(self._handle, stream, attributes)
        assert result == 0, f"no stream {stream}"
        return attributes
