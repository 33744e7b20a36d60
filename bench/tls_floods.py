#!/usr/bin/python3
"""tls_floods.py - what TLS clients that send no data do to those who do.

64 good clients allocate and release calls over keep-alive HTTPS, each with a pause before each request: first quietly, then beside
each flood. A flood is tls-flood in several processes: each connects, sends records without data (key updates with TLS 1.3, or hellos
that ask for another handshake with TLS 1.2: one in each record, as many as fit into each record, or behind the last message of the first
handshake) until the router cuts it, and connects again at once. Another one, for comparison, does nothing but handshakes. The p99 of the
good clients is compared with the quiet one. The exit status is 1 if a goal is missed.

The router is pinned to one core and everybody else to the other. The flood runs only when nobody else wants that core, so that it does not
delay the clients that are measured; in the quiet part a process that does nothing but spin has its place, so that both parts have
the same competition for the core. Standard library only; loopback only; every process is stopped at the end.

    tls_floods.py [--seconds 30] [--processes 4] [--plain] [--build build] [--json build/bench-tls-floods.json]
    FLOOD_SECONDS=5 tls_floods.py       a short look
"""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile

from common import CLIENT_CORE, ROOT, SHARED, Client, Router, free_ports, load, pinned

PODS = 100
PAUSE_MS = 10  # of a good client before each request: together they ask some 5,000 times a second
RATIO_MAX = 3
RECORDS = 200  # in a row: three times what is let through
FLOODS = ("key-update", "renegotiate", "renegotiate-packed", "renegotiate-behind", "handshake")


def make_certificate(directory):
    """A key on P-256, as docs/TLS.md advises."""
    cert, key = os.path.join(directory, "cert.pem"), os.path.join(directory, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2",
                    "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def start_router(options, directory):
    cert, key = make_certificate(directory)
    (tls_port,) = free_ports(1)
    environment = {"LOG_LEVEL": "warn", "TLS_CERT_FILE": cert, "TLS_KEY_FILE": key, "TLS_PORT": str(tls_port)}
    router = Router(os.path.join(options.build, "smart-router"), os.path.join(directory, "router"), SHARED, PODS, environment=environment)
    return router, tls_port


class Flood:
    """tls-flood while this is open. It ends by itself; what it says is in `found` then."""

    def __init__(self, options, port, kind):
        command = [os.path.join(options.build, "test", "tls-flood"), "--port", str(port), "--kind", kind, "--records", str(RECORDS),
                   "--seconds", str(options.seconds + 1), "--processes", "1" if kind == "spin" else str(options.processes)]
        self.process = subprocess.Popen(pinned(CLIENT_CORE, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=lambda: os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0)))
        self.found = {}

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        if error:
            self.process.terminate()
        for line in self.process.stdout:
            for name, count in json.loads(line).items():
                self.found[name] = self.found.get(name, 0) + count
        self.process.wait()
        self.process.stdout.close()


def tls_metrics(router):
    text = Client(router.metrics_port).must("GET", "/metrics").decode()
    return {name: float(value) for name, value in re.findall(r"^smart_router_tls_(cut_total|dataless_records_total) (\S+)", text, re.M)}


def measure(options, router, tls_port, kind):
    where = ("http", router.port) if options.plain else ("https", tls_port)
    before = tls_metrics(router)
    with Flood(options, tls_port, kind) as flood:
        row = load(router, where[1], options.seconds, kind.replace("-", ""), PAUSE_MS, scheme=where[0])
    row["flood"] = flood.found
    row["router"] = {name: value - before.get(name, 0) for name, value in tls_metrics(router).items()}
    router.settle()
    return row


def report(rows, options):
    print(f"\n64 good clients over {'HTTP' if options.plain else 'HTTPS'} with a pause of {PAUSE_MS} ms, {options.seconds} s each; floods from "
          f"{options.processes} processes that connect again when they are cut.\nThe flood runs at idle priority (SCHED_IDLE) on the core of the "
          "good clients: it gets the time that they leave.\nquiet: a process that spins has the place of the flood.")
    print(f"{'':18} {'req/s':>7} {'p50 ms':>7} {'p99 ms':>7} {'ratio':>6} {'max ms':>7} {'busy':>5} {'errors':>6} {'connects':>9} {'cut':>7} {'records':>8}")
    for name, row in rows.items():
        print(f"{name:18} {row['requests_per_s']:7.0f} {row['p50_ms']:7.2f} {row['p99_ms']:7.2f} {row['ratio']:6.2f} {row['max_ms']:7.2f} {row['busy']:5.0%} "
              f"{row['failed'] + row['refused']:6} {row['flood'].get('connections', 0):9} {row['router'].get('cut_total', 0):7.0f} "
              f"{row['router'].get('dataless_records_total', 0):8.0f}")
    print()
    targets = [(f"p99 of the good clients, {name} over quiet", rows[name]["ratio"], RATIO_MAX) for name in FLOODS]
    targets.append(("errors of the good clients", sum(row["failed"] + row["refused"] for row in rows.values()), 0))
    for what, value, limit in targets:
        print(f"{'met' if value <= limit else 'MISSED':8} {what}: {value:.2f} (at most {limit})")
    return {what: value <= limit for what, value, limit in targets}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FLOOD_SECONDS", 30)))
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--plain", action="store_true", help="the good clients use the listener without TLS")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--json", default=None, help="by default bench-tls-floods.json in the build directory")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as directory, contextlib.ExitStack() as stack:
        router, tls_port = start_router(options, directory)
        stack.callback(router.stop)
        load(router, router.port, 3, "warm", PAUSE_MS)
        router.settle()
        rows = {"quiet": measure(options, router, tls_port, "spin")}
        for kind in FLOODS:
            rows[kind] = measure(options, router, tls_port, kind)
    for row in rows.values():
        row["ratio"] = row["p99_ms"] / rows["quiet"]["p99_ms"]
    met = report(rows, options)
    with open(options.json or os.path.join(options.build, "bench-tls-floods.json"), "w", encoding="ascii") as file:
        json.dump({"rows": rows, "met": met}, file, indent=1)
    sys.exit(0 if all(met.values()) else 1)


if __name__ == "__main__":
    main()
