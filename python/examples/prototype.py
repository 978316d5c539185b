"""A rank function in Python: shortest packet first, without starvation.

Usage: python examples/prototype.py
"""

from millstream import Head, Scheduler


class ShortestFirst:
    """Ranks by length; a microsecond of waiting offsets one byte."""

    def rank(self, stream: int, head: Head) -> int:
        """Returns the length plus one byte for each microsecond of later arrival."""
        return head.bytes * 1000 + head.arrival_ns


def main() -> None:
    """Runs two streams: long packets that arrive first, then short ones."""
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
