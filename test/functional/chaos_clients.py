"""The clients of the chaos campaign, which retry as real ones do, and the judge, who knows which containers live.

A call lives from its answered allocation until its release is sent, on the run of its pod's container ("life") that went on
all the time while it was being allocated. When that life ends, the call has really ended, and whatever the routers say of
it is right. Until then two of them on one life are a violation, and so is one that is not known any more.

Not judged, but counted (`excluded`), because no one can say what is right:
- a call whose allocation, from its first try to its answer, was not inside one life: the pod restarted meanwhile, or
  the routers had not heard yet that its container was down;
- a call that has outlived its container and asks again: if no router has heard of it yet, it is told its old pod;
- a call that is left because its router came back in the moment in which its client gave up on it: the answer was sent, and
  nobody read it. What closed its connection before that is no excuse.
"""

import collections
import datetime
import http.client
import json
import random
import socket
import threading
import time

TIMEOUTS_S = (1, 3)  # the impatient ones are gone more often when a router comes back
TRIES = (1, 2, 4, 4)
HELD_S = 20  # what was given to nobody is free again long before, also on a slow machine
MOMENT_S = 0.3  # an answer and a client's end that are this close may have crossed


class Judge:
    def __init__(self, pods):
        self.pods = pods  # name -> chaos.Pod
        self.lock = threading.Lock()
        self.violations = []
        self.excluded = collections.Counter()
        self.told = collections.Counter()
        self.story = []
        self.unanswered = collections.defaultdict(list)  # call_sid -> [(router number, when its client gave up)]
        self.done = {}  # call_sid -> when its release was answered
        self.held_since = {}  # call_sid -> when an audit first found it although it was done
        self.wakings = collections.defaultdict(list)  # router number -> when it was let go on

    def note(self, text):
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%H:%M:%S.%f")[:-3]
        self.story.append(f"{stamp} {text}")

    def count(self, what):
        with self.lock:
            self.told[what] += 1

    def exclude(self, why):
        with self.lock:
            self.excluded[why] += 1

    def convict(self, text):
        self.note(f"VIOLATION {text}")
        self.violations.append(text)

    def place(self, call_sid, pod_name, since, until):
        """The life on which the call is from now on; None if that cannot be said."""
        life = self.pods[pod_name].life_during(since, until)
        if not life:
            self.exclude("allocated around a restart")
            return None
        with self.lock:
            others = set(life.calls)
            life.calls.add(call_sid)
        if others and life.ended is None:
            self.convict(f"two calls: {pod_name} run {life.number} has {call_sid} and {sorted(others)}")
        return life

    def leave(self, call_sid, life):
        if life:
            with self.lock:
                life.calls.discard(call_sid)

    def audit(self, call_sids):
        """All calls that the routers know. One that is done may be there for a moment: a sweep undoes what was an error."""
        now = time.monotonic()
        found = {sid: self.held_since.get(sid, now) for sid in call_sids if now - self.done.get(sid, now) > HELD_S}
        for call_sid, since in found.items():
            if self.held_since.get(call_sid) != 0 and now - since > HELD_S:
                found[call_sid] = 0  # once is enough
                self.judge_held(call_sid)
        self.held_since = found

    def judge_held(self, call_sid):
        if self.crossed(call_sid):
            self.exclude("its client gave up as its router came back")
        else:
            self.convict(f"held: {call_sid} has a pod, and its client is gone")

    def crossed(self, call_sid):
        """Its client gave up in the moment in which the router came back."""
        return any(
            abs(waking - gone) < MOMENT_S for number, gone in self.unanswered[call_sid] for waking in self.wakings[number]
        )

    def about(self, violation):
        """What happened until then to the calls and pods that it names, to the routers and to the API server."""
        words = {word.strip("[]',:") for word in violation.split() if "agent-" in word or "call-" in word}
        end = next(i for i, line in enumerate(self.story) if line.endswith(violation)) + 1
        told = [line for line in self.story[:end] if "===" in line or words & set(line.split())]
        return told[-60:]


class Call:
    def __init__(self, call_sid):
        self.call_sid = call_sid
        self.pod = None
        self.life = None  # None: it is not judged
        self.is_lost = False  # that was said; its client still has it
        self.first_unanswered = None  # when the first try was sent that may have placed it


class Client:
    """One call after the other, at any router; one that gave no answer is not asked again at once."""

    def __init__(self, judge, slots, number, seed, over):
        self.judge, self.slots, self.number, self.over = judge, slots, number, over
        self.rng = random.Random(f"{seed} client {number}")
        self.timeout_s = TIMEOUTS_S[number % len(TIMEOUTS_S)]
        self.connections = {}
        self.last_bad = None
        self.names = 0
        self.late = []  # [(when, call_sid)]: the provider tells the end of calls that were given up

    # Requests

    def connect(self, port):
        conn = self.connections.get(port)
        if not conn:
            conn = self.connections[port] = http.client.HTTPConnection("127.0.0.1", port, timeout=self.timeout_s)
            conn.connect()
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return conn

    def ask(self, method, path, body=None, call_sid=None):
        """(status or None, JSON, when sent, when answered)"""
        slot = self.rng.choice([slot for slot in self.slots if slot is not self.last_bad])
        port = slot.port
        sent = time.monotonic()
        try:
            conn = self.connect(port)
            conn.request(method, path, json.dumps(body).encode() if body is not None else None)
            response = conn.getresponse()
            status, answer = response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            status, answer = None, {"error": repr(error)}
            broken = self.connections.pop(port, None)
            if broken:
                broken.close()
            with self.judge.lock:
                self.judge.unanswered[call_sid].append((slot.number, time.monotonic()))
        self.last_bad = slot if status in (None, 503) else None
        what = path.split("/")[3]
        self.judge.count(f"{what} {status or 'no answer'}")
        self.judge.note(f"{call_sid} {what} router-{slot.number} {status} {answer.get('pod_name', answer)}")
        return status, answer, sent, time.monotonic()

    def pause(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    # A call

    def run(self):
        while not self.over.is_set():
            self.names += 1
            self.one(Call(f"call-{self.number}-{self.names}"))
            self.pause(0.05, 0.6)
            self.tell_ends()
        self.tell_ends(all_of_them=True)
        for conn in self.connections.values():
            conn.close()

    def one(self, call):
        if not self.allocate(call):
            self.give_up(call)
            return
        end = time.monotonic() + self.rng.uniform(0.5, 8)
        while (left := end - time.monotonic()) > 0 and not self.over.is_set():
            self.over.wait(min(left, self.rng.uniform(0.3, 2.5)))
            what = self.rng.random()
            if what < 0.35:
                self.allocate_again(call)
            elif what < 0.6:
                self.look(call)
        self.release(call)

    def try_allocate(self, call):
        """(answer or None, since when it may have been placed, until)"""
        status, answer, sent, answered = self.ask(
            "POST", "/api/v1/allocate", {"call_sid": call.call_sid}, call_sid=call.call_sid
        )
        since = call.first_unanswered or sent
        call.first_unanswered = None if status == 200 else since
        return (answer if status == 200 else None), since, answered

    def allocate(self, call):
        for _ in range(self.rng.choice(TRIES)):
            answer, since, answered = self.try_allocate(call)
            if answer:
                call.pod = answer["pod_name"]
                call.life = self.judge.place(call.call_sid, call.pod, since, answered)
                self.judge.count("calls")
                return True
            self.pause(0.1, 0.5)
        return False

    def give_up(self, call):
        """Some say so at once, for the others the provider does."""
        self.judge.count("given up")
        if self.rng.random() < 0.5:
            self.release(call)
        else:
            self.late.append((time.monotonic() + self.rng.uniform(2, 12), call))

    def tell_ends(self, all_of_them=False):
        due = [entry for entry in self.late if all_of_them or entry[0] <= time.monotonic()]
        self.late = [entry for entry in self.late if entry not in due]
        for _, call in due:
            self.release(call)

    def is_living(self, call, answered):
        """Surely: its container has not ended until the answer was there."""
        return call.life is not None and (call.life.ended is None or call.life.ended > answered)

    def lose(self, call, text):
        if not call.is_lost:
            call.is_lost = True
            self.judge.convict(f"lost: {call.call_sid} on {call.pod} run {call.life.number}: {text}")

    def allocate_again(self, call):
        answer, since, answered = self.try_allocate(call)
        if not answer:
            return
        is_same = answer["was_existing"] and answer["pod_name"] == call.pod
        if is_same and (call.life is None or call.life.ended is None):
            return
        if self.is_living(call, answered):
            self.lose(call, f"it asked again and got {answer['pod_name']}{'' if answer['was_existing'] else ' anew'}")
        elif call.life:
            self.judge.count("ended with their container")
        self.judge.leave(call.call_sid, call.life)
        call.pod, call.life, call.is_lost = answer["pod_name"], None, False
        if is_same:
            self.judge.exclude("asked again after its container's end")
        else:
            call.life = self.judge.place(call.call_sid, call.pod, since, answered)

    def check(self, call, status, answer, answered):
        """The routers know a call that lives."""
        if self.is_living(call, answered) and (status == 404 or (status == 200 and answer["pod_name"] != call.pod)):
            self.lose(call, f"asked for or released, it is {answer.get('pod_name', 'not known')}")

    def look(self, call):
        status, answer, _, answered = self.ask("GET", f"/api/v1/call/{call.call_sid}", call_sid=call.call_sid)
        self.check(call, status, answer, answered)

    def release(self, call):
        """Until it is answered. The call is over when the first try is sent; after that one its end is no loss."""
        self.judge.leave(call.call_sid, call.life)
        while True:
            status, answer, _, answered = self.ask(
                "POST", "/api/v1/release", {"call_sid": call.call_sid}, call_sid=call.call_sid
            )
            self.check(call, status, answer, answered)
            if call.life and not self.is_living(call, answered):
                self.judge.count("ended with their container")
            call.life = None
            if status in (200, 404):
                self.judge.done[call.call_sid] = answered
                return
            self.pause(0.1, 0.5)
