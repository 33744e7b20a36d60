#!/usr/bin/python3
"""plot.py - draws the figures of latency.py: rate against connections, latency against rate.

    plot.py [--json build/bench-latency.json] [--directory build]

Writes rate.svg and latency.svg, and latency.md: the same figures as tables. Standard library only.
"""
import argparse
import json
import math
import os

from common import ROOT

WIDTH, HEIGHT = 720, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 40, 50
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")


class Axis:
    """Maps values to pixels, on a linear or a logarithmic scale."""

    def __init__(self, values, start, end, is_log):
        self.is_log = is_log
        self.start, self.end = start, end
        if is_log:
            self.low = 10 ** math.floor(math.log10(min(values)))
            self.high = 10 ** math.ceil(math.log10(max(values)))
        else:
            step = 10 ** math.floor(math.log10(max(values)))
            self.low, self.high = 0, math.ceil(max(values) / step) * step

    def at(self, value):
        if self.is_log:
            part = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def ticks(self):
        if self.is_log:
            return [self.low * 10 ** i for i in range(round(math.log10(self.high / self.low)) + 1)]
        return [self.high * i / 5 for i in range(6)]


def text(x, y, words, anchor="middle", extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {extra}>{words}</text>'


def plot(title, x_title, y_title, lines, is_log_y):
    """`lines` is {name: [(x, y), …]}; x is logarithmic."""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    x_axis = Axis(xs, LEFT, WIDTH - RIGHT, True)
    y_axis = Axis(ys, HEIGHT - BOTTOM, TOP, is_log_y)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           text((LEFT + WIDTH - RIGHT) / 2, 20, title, extra='font-size="15"')]
    for tick in x_axis.ticks():
        x = x_axis.at(tick)
        out.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        out.append(text(x, HEIGHT - BOTTOM + 18, f"{tick:,.0f}"))
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        out.append(text(LEFT - 8, y + 4, f"{tick:,g}", "end"))
    out.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_title))
    out.append(text(16, TOP - 14, y_title, "start"))
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x_axis.at(x):.1f},{y_axis.at(y):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x_axis.at(x):.1f}" cy="{y_axis.at(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
        y = TOP + 16 * number + 8
        out.append(f'<path d="M{WIDTH - RIGHT + 12} {y - 4}h18" stroke="{colour}" stroke-width="2"/>')
        out.append(text(WIDTH - RIGHT + 36, y, name, "start"))
    return "\n".join(out + ["</svg>", ""])


def tables(found):
    """The figures as Markdown."""
    out = ["| store | connections | requests/s | p50 ms | p99 ms |", "|---|---|---|---|---|"]
    for name, rows in found["rates"].items():
        out += [f"| {name} | {row['connections']:,} | {row['requests_per_s']:,.0f} | {row['p50_ms']:.2f} | {row['p99_ms']:.2f} |"
                for row in rows]
    out += ["", "| store | arrivals | p50 ms | p99 ms | p99.9 ms | most |", "|---|---|---|---|---|---|"]
    for name, rows in found["latencies"].items():
        for row in rows:
            what = (f"{found['burst']} at once" if row["share"] == "burst"
                    else f"{row['rate']:,.0f}/s, {row['share']:.0%} of the maximum")
            out.append(f"| {name} | {what} | {row['p50_ms']:.2f} | {row['p99_ms']:.2f} | {row['p999_ms']:.2f} | "
                       f"{row['max_ms']:.2f} |")
    return "\n".join(out) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "bench-latency.json"))
    parser.add_argument("--directory", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    with open(options.json, encoding="ascii") as file:
        found = json.load(file)
    rates = {name: [(row["connections"], row["requests_per_s"]) for row in rows]
             for name, rows in found["rates"].items()}
    latencies = {f"{name}, {label}": [(row["rate"], row[key]) for row in rows if row["rate"]]
                 for name, rows in found["latencies"].items()
                 for label, key in (("p50", "p50_ms"), ("p99", "p99_ms"), ("p99.9", "p999_ms"))}
    drawings = {
        "rate.svg": plot("Requests per second (allocate and release)", "connections", "requests/s", rates, False),
        "latency.svg": plot("Latency at a constant arrival rate", "requests/s", "ms", latencies, True),
    }
    drawings["latency.md"] = tables(found)
    for name, drawing in drawings.items():
        with open(os.path.join(options.directory, name), "w", encoding="utf-8") as file:
            file.write(drawing)
        print(os.path.relpath(os.path.join(options.directory, name)))


if __name__ == "__main__":
    main()
