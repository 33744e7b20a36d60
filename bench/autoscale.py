#!/usr/bin/python3
"""autoscale.py - draws a day of calls, and the pods that an autoscaler gives to them.

    autoscale.py [--build build] [--hours 24] [--seed 1] [--svg docs/autoscale.svg]

build/test/autoscale-day plays the day in simulated time, as a Deployment and as a StatefulSet; see there for its rules.
It needs the build's tests (scripts/with-tests). Standard library only.
"""
import argparse
import csv
import os
import subprocess
import tempfile

from common import ROOT
from plot import COLOURS, text

WIDTH, PANEL, LEFT, RIGHT, TOP, BOTTOM = 860, 260, 50, 130, 40, 36
LINES = (("pods", 2), ("desired_pods", 3), ("calls", 1))


def play(program, kind, options):
    """[(seconds, calls, pods, desired_pods, refused)], and the sentence that sums it up."""
    with tempfile.NamedTemporaryFile("r", suffix=".csv") as file:
        done = subprocess.run([program, "--kind", kind, "--hours", str(options.hours), "--seed", str(options.seed), "--csv", file.name],
                              check=True, stdout=subprocess.PIPE, text=True)
        return [tuple(int(value) for value in row) for row in csv.reader(file)], done.stdout.strip()


def panel(rows, kind, top, hours):
    most = max(max(row[1:4]) for row in rows)
    most = (most // 20 + 1) * 20
    bottom = top + PANEL - TOP - BOTTOM

    def x(seconds):
        return LEFT + seconds / (hours * 3600) * (WIDTH - LEFT - RIGHT)

    def y(value):
        return bottom - value / most * (bottom - top)

    out = [text(LEFT, top - 12, kind, "start", 'font-size="15"')]
    for tick in range(0, most + 1, 20):
        out += [f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>', text(LEFT - 6, y(tick) + 4, tick, "end")]
    for hour in range(0, int(hours) + 1, 3):
        out += [f'<path d="M{x(hour * 3600):.1f} {top}V{bottom}" stroke="#ddd"/>', text(x(hour * 3600), bottom + 16, f"{hour}:00")]
    for number, (name, column) in enumerate(LINES):
        colour = COLOURS[number]
        path = " ".join(f"{x(row[0]):.1f},{y(row[column]):.1f}" for row in rows[::3])
        out += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>',
                f'<path d="M{WIDTH - RIGHT + 12} {top + 16 * number + 4}h18" stroke="{colour}" stroke-width="2"/>',
                text(WIDTH - RIGHT + 36, top + 16 * number + 8, name, "start")]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--svg", default=os.path.join(ROOT, "docs", "autoscale.svg"))
    options = parser.parse_args()
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * PANEL}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{2 * PANEL}" fill="white"/>']
    for number, kind in enumerate(("deployment", "statefulset")):
        rows, summary = play(os.path.join(options.build, "test", "autoscale-day"), kind, options)
        print(summary)
        out += panel(rows, kind, TOP + number * PANEL, options.hours)
    with open(options.svg, "w", encoding="utf-8") as file:
        file.write("\n".join(out + ["</svg>", ""]))
    print(os.path.relpath(options.svg))


if __name__ == "__main__":
    main()
