"""A rank function in Python: shortest packet first, but nobody waits for ever.

Usage: python examples/prototype.py
"""

from millstream import Head, Scheduler


class ShortestFirst:
    """By length; a packet's waiting makes up for its bytes at a byte a microsecond."""

    def rank(self, stream: int, head: Head) -> int:
        """Bytes, and a byte more for each microsecond that it came later."""
        return head.bytes * 1000 + head.arrival_ns


def main() -> None:
    """Two streams: long packets first in time, short ones after."""
    scheduler = Scheduler(ShortestFirst())
    long, short = scheduler.add_stream(), scheduler.add_stream()
    scheduler.enqueue_batch(0, long, [1500, 1500])
    scheduler.enqueue_batch([1, 1_000_000, 2_000_000], short, 64)
    print(
        [
            "long" if stream == long else "short"
            for stream in scheduler.dequeue_batch(2_000_000).stream
        ]
    )
    assert scheduler.waiting(short) == 0


if __name__ == "__main__":
    main()
