"""demo_screen.py - what the demo shows: a table that is drawn again in place on a terminal, a line per event elsewhere.

A line is a list of (style, text). Every screen can be kept, and becomes an SVG that plays them one after the other.
"""
import html
import shutil
import sys
import time

WIDTH = 100
EVENTS = 9
ANSI = {"plain": "", "dim": "2", "bold": "1", "green": "32", "yellow": "33", "red": "31"}
STEP_S = 0.6  # how long the SVG shows a screen
LAST_S = 8  # and the last one
CHAR, LINE = 8.4, 18  # of its letters, in pixels


def text_of(line):
    return "".join(text for _, text in line)


def fit(line, width=WIDTH):
    left, fitted = width, []
    for style, text in line:
        fitted.append((style, text[:left]))
        left -= len(fitted[-1][1])
    return fitted


class Screen:
    def __init__(self, records):
        self.is_terminal = sys.stdout.isatty()
        self.records = records
        self.began = time.monotonic()
        self.events, self.screens, self.drawn = [], [], 0
        if self.is_terminal:
            print("\x1b[?25l", end="")

    def tell(self, style, text):
        """An event."""
        seconds = int(time.monotonic() - self.began)
        line = fit([("dim", f"{seconds // 60:02}:{seconds % 60:02}  "), (style, text)])
        self.events.append(line)
        if not self.is_terminal:
            print(text_of(line), flush=True)

    def draw(self, lines):
        """The table; the newest events are below it."""
        size = shutil.get_terminal_size()
        room = max(1, EVENTS if not self.is_terminal else min(EVENTS, size.lines - len(lines) - 3))
        events = self.events[-room:]
        screen = [fit(line) for line in lines] + [[]] + events + [[]] * (room - len(events))
        if self.records and (not self.screens or self.screens[-1] != screen):
            self.screens.append(screen)
        if not self.is_terminal:
            return
        out = f"\x1b[{self.drawn}A\x1b[J" if self.drawn else ""
        shown = screen[: max(1, size.lines - 1)]  # what scrolls away cannot be drawn again, nor a line that wraps
        for line in shown:
            line = fit(line, size.columns - 1)
            out += "".join(f"\x1b[{ANSI[style]}m{text}\x1b[0m" for style, text in line) + "\x1b[K\r\n"
        self.drawn = len(shown)
        print(out, end="", flush=True)

    def end(self, lines):
        """The figures, below everything."""
        if self.is_terminal:
            print("\x1b[?25h", end="")
        if self.records:
            table = self.screens[-1] if self.screens else []
            self.screens.append(table + [fit(line) for line in lines])
        for line in lines:
            style = {"bold": "1", "green": "32", "red": "31"}.get(line[0][0] if line else "", "")
            text = text_of(line)
            print(f"\x1b[{style}m{text}\x1b[0m" if self.is_terminal and style else text, flush=True)

    def close(self):
        if self.is_terminal:
            print("\x1b[?25h", end="", flush=True)

    def svg(self, count):
        """At most `count` screens, and the last one."""
        *screens, last = self.screens
        step = max(1, -(-len(screens) // count))
        return svg_of(screens[::step], last)


def svg_line(number, line):
    spans = "".join(f'<tspan class="{style}">{html.escape(text)}</tspan>' for style, text in line if text)
    return f'<text x="16" y="{34 + number * LINE}" xml:space="preserve">{spans}</text>' if spans else ""


def svg_of(screens, last):
    height = 34 + max(len(screen) for screen in screens + [last]) * LINE
    whole_s = len(screens) * STEP_S + LAST_S
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {int(32 + WIDTH * CHAR)} {height}">',
        "<title>make demo: calls, while agents and the router fail</title>",
        "<style>",
        "text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#d8dee9}",
        ".dim{fill:#7b8494}.bold{fill:#fff;font-weight:bold}",
        ".green{fill:#8fd18f}.yellow{fill:#ebcb6b}.red{fill:#ef7f7f}",
        f"g{{visibility:hidden;animation:show {whole_s:g}s step-end infinite}}",
        f"#last{{animation-name:last;animation-delay:{len(screens) * STEP_S:g}s}}",
        f"@keyframes show{{0%{{visibility:visible}}{100 * STEP_S / whole_s:.4f}%{{visibility:hidden}}}}",
        f"@keyframes last{{0%{{visibility:visible}}{100 * LAST_S / whole_s:.4f}%{{visibility:hidden}}}}",
        "</style>",
        f'<rect width="100%" height="{height}" rx="8" fill="#20242c"/>',
    ]
    for number, screen in enumerate(screens):
        parts.append(f'<g style="animation-delay:{number * STEP_S:g}s">')
        parts += filter(None, (svg_line(at, line) for at, line in enumerate(screen)))
        parts.append("</g>")
    parts.append('<g id="last">')
    parts += filter(None, (svg_line(at, line) for at, line in enumerate(last)))
    return "\n".join([*parts, "</g>", "</svg>", ""])
