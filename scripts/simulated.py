"""simulated.py - a router and simulated voice agents as processes of a script, for run-local and demo.

A process that is started here ends with the script, however the script ends. Signals of the terminal reach the
script alone, which passes them on once.
"""
import contextlib
import ctypes
import random
import signal
import socket
import subprocess

PR_SET_PDEATHSIG = 1
AGENTS = 5  # what the default tiers want: four pods for one call each, and one for three
_libc = ctypes.CDLL(None)


def _end_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(command, **options):
    """As subprocess.Popen."""
    return subprocess.Popen([str(word) for word in command], start_new_session=True, preexec_fn=_end_with_parent, **options)


def start_agents(build, count=AGENTS, base_port=0):
    """Agents in one process, on free ports if there is no base port: the process, and {name: address}."""
    command = [build / "tools/agent-sim", "--agents", count, "--base-port", base_port]
    process = start(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    agents = {}
    for line in process.stdout:
        words = line.split()
        if words == ["ready"]:
            return process, agents
        agents[words[1]] = words[2]
    raise SystemExit(f"the agents did not start: agent-sim ended with {process.wait()}")


def static_pods(agents):
    """STATIC_PODS"""
    return ",".join(f"{name}={address}" for name, address in agents.items())


def stop(processes, seconds=40):
    """Stops them all at once: a router does not wait for streams whose agents end. Returns their exit statuses."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    for process in processes:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return [process.returncode for process in processes]


def free_port():
    """Below those that the kernel gives to outgoing connections: a server that starts again finds it free, too."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("127.0.0.1", port))
            return port
