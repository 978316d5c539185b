#!/usr/bin/env python3
"""Draws the pictures of docs/src/concepts.md; the schedules in them are the engine's own.

Usage: scripts/concepts.py [--check]. Needs the package millstream (scripts/python.sh installs it).
"""

from millstream import Scheduler
from millstream.figures import COLOURS
from pages import write

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
GREY = "#666666"
PALE = "#e8e8e8"


class Picture:
    """An SVG under construction; lengths are pixels."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """Starts an empty picture; screen readers read its title."""
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="{FONT}" font-size="12">',
            f"<title>{title}</title>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]

    def box(
        self, x: float, y: float, width: float, height: float, fill: str, *, text: str = ""
    ) -> None:
        """A box with text in it."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="2" '
            f'fill="{fill}" stroke="#ffffff"/>'
        )
        if text:
            middle, line = x + width / 2, y + height / 2 + 4.5
            self.text(middle, line, text, fill="#ffffff" if fill != PALE else "#000000")

    def text(
        self, x: float, y: float, text: str, *, fill: str = "#000000", anchor: str = "middle"
    ) -> None:
        """A line of text."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="{fill}">{text}</text>'
        )

    def line(self, points: list[tuple[float, float]], stroke: str, *, arrow: bool = False) -> None:
        """Draws a line, with an arrowhead at its end if ``arrow`` is set."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        self.parts.append(f'<path d="M{path}" fill="none" stroke="{stroke}" stroke-width="1.5"/>')
        if arrow:
            (x, y), (before_x, before_y) = points[-1], points[-2]
            across = (x - before_x) or (y - before_y)
            sign = 1 if across > 0 else -1
            tips = (
                [(x - 6 * sign, y - 4), (x - 6 * sign, y + 4)]
                if x != before_x
                else [(x - 4, y - 6 * sign), (x + 4, y - 6 * sign)]
            )
            shape = " ".join(f"{a:g},{b:g}" for a, b in [(x, y), *tips])
            self.parts.append(f'<polygon points="{shape}" fill="{stroke}"/>')

    def svg(self) -> str:
        """The file."""
        return "\n".join([*self.parts, "</svg>\n"])


def streams() -> str:
    """Queues, the scheduler, the link."""
    picture = Picture(720, 210, "Packets wait in a queue for each stream; the scheduler picks one")
    for row, (name, waiting) in enumerate([("voice", 1), ("video", 4), ("bulk", 6)]):
        y = 40 + row * 55
        picture.text(60, y + 20, name)
        picture.line([(90, y + 15), (130, y + 15)], GREY, arrow=True)
        picture.line([(135, y), (330, y), (330, y + 30), (135, y + 30)], GREY)
        for place in range(waiting):
            width = 24 if name == "voice" else 30
            picture.box(326 - (place + 1) * 32, y + 3, width, 24, COLOURS[row])
        picture.line([(334, y + 15), (380, y + 15), (410, 110)], GREY, arrow=True)
    picture.box(412, 75, 110, 70, GREY, text="scheduler")
    picture.line([(522, 110), (560, 110)], GREY, arrow=True)
    for place, row in enumerate([1, 2, 0]):
        picture.box(565 + place * 36, 98, 32, 24, COLOURS[row])
    picture.line([(676, 110), (705, 110)], GREY, arrow=True)
    picture.text(232, 22, "one queue a stream, oldest packet on the right", fill=GREY)
    picture.text(467, 165, "whose packet", fill=GREY)
    picture.text(467, 182, "goes next?", fill=GREY)
    picture.text(620, 150, "one link", fill=GREY)
    return picture.svg()


def deadlines() -> str:
    """Three periodic streams by earliest deadline first; a slot is a packet's transmission."""
    periods, slots, left, step = (3, 4, 6), 13, 110, 46
    scheduler = Scheduler("edf")
    for period in periods:
        scheduler.add_stream(period_ns=period)
    picture = Picture(720, 240, "Arrivals, deadlines and services of three streams under EDF")
    at = [left + slot * step for slot in range(slots + 1)]
    for row, period in enumerate(periods):
        y = 40 + row * 46
        picture.text(left - 14, y + 4, f"{'ABC'[row]}: T = {period}", anchor="end")
        picture.line([(left, y + 14), (at[slots], y + 14)], GREY)
        for slot in range(0, slots + 1, period):
            if slot < slots:
                picture.line([(at[slot], y - 14), (at[slot], y + 12)], COLOURS[row], arrow=True)
            if slot:
                picture.line([(at[slot], y + 14), (at[slot], y + 26)], COLOURS[row])
    y = 185
    picture.text(left - 14, y + 20, "link", anchor="end")
    for slot in range(slots):
        for stream, period in enumerate(periods):
            if slot % period == 0:
                scheduler.enqueue(slot, stream, 100)
        sent = scheduler.dequeue(slot)
        if sent is None:
            picture.box(at[slot], y, step, 30, PALE, text="idle")
            continue
        assert sent.deadline_ns is not None and slot < sent.deadline_ns
        label = f"{'ABC'[sent.stream]} by {sent.deadline_ns}"
        picture.box(at[slot], y, step, 30, COLOURS[sent.stream], text=label)
    for slot in range(slots + 1):
        picture.text(at[slot], y + 46, str(slot), fill=GREY)
    return picture.svg()


def windows() -> str:
    """Three streams that lose packets, each no more than its window allows, by DWCS."""
    allowed, slots, left, step = ((1, 2), (3, 4), (3, 4)), 16, 150, 34
    scheduler = Scheduler("dwcs")
    for window in allowed:
        scheduler.add_stream(period_ns=1, window=window, late="drop")
    served = []
    for slot in range(slots):
        for stream in range(3):
            scheduler.enqueue(slot, stream, 100)
        sent = scheduler.dequeue(slot)
        assert sent is not None
        served.append(sent.stream)
    assert not scheduler.counters().violations.any()
    picture = Picture(
        720, 210, "Which packets of three streams are sent and which are lost by DWCS"
    )
    for row, (lost, of) in enumerate(allowed):
        y = 20 + row * 62
        picture.text(left - 14, y + 19, f"window {lost}/{of}", anchor="end")
        for slot in range(slots):
            x = left + slot * step
            if served[slot] == row:
                picture.box(x, y, step, 28, COLOURS[row], text="sent")
            else:
                picture.box(x, y, step, 28, PALE, text="lost")
        for block in range(0, slots, of):
            ends = left + block * step + 3, left + (block + of) * step - 3
            picture.line(
                [(ends[0], y + 32), (ends[0], y + 37), (ends[1], y + 37), (ends[1], y + 32)], GREY
            )
        picture.text(left - 14, y + 41, f"of each {of} at most {lost}", fill=GREY, anchor="end")
    return picture.svg()


def virtual_time() -> str:
    """The fluid link by weight, and the packets in the order in which it would finish them."""
    weights, packets, left, step = (2, 1, 1), 8, 150, 66
    # A packet takes 1 µs.
    scheduler = Scheduler("wfq", link_rate_bps=8_000_000_000)
    for weight in weights:
        scheduler.add_stream(weight=weight)
    counts = [packets * weight // sum(weights) for weight in weights]
    for stream, count in enumerate(counts):
        scheduler.enqueue_batch([0] * count, stream, 1000)
    picture = Picture(720, 245, "A fluid link serves by weight; WFQ sends by its finishing times")
    y = 30.0
    picture.text(left, 18, "the fluid link: all at once, by weight", fill=GREY, anchor="start")
    for stream, weight in enumerate(weights):
        height = 30 * weight
        picture.text(left - 14, y + height / 2 + 4, f"weight {weight}", anchor="end")
        width = step * sum(weights) / weight
        for number in range(counts[stream]):
            label = f"{'ABC'[stream]}{number + 1}"
            picture.box(left + number * width, y, width, height, COLOURS[stream], text=label)
        y += height
    picture.text(
        left,
        y + 26,
        "the real link: whole packets, by when the fluid finishes them",
        fill=GREY,
        anchor="start",
    )
    y += 36
    picture.text(left - 14, y + 19, "wfq", anchor="end")
    sent = [0, 0, 0]
    for place in range(packets):
        departure = scheduler.dequeue(place * 1000)
        assert departure is not None
        stream = departure.stream
        sent[stream] += 1
        label = f"{'ABC'[stream]}{sent[stream]}"
        picture.box(left + place * step, y, step, 28, COLOURS[stream], text=label)
    for place in range(packets + 1):
        picture.text(left + place * step, y + 46, str(place), fill=GREY)
    return picture.svg()


write(
    {
        "concept-deadlines.svg": deadlines(),
        "concept-streams.svg": streams(),
        "concept-virtual-time.svg": virtual_time(),
        "concept-windows.svg": windows(),
    }
)
