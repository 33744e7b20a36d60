"""Clients that record every answer, and a checker that finds what cannot have been right.

The checker knows when each request was sent and when its answer came. A call *surely* has its pod from the answer to
its allocation until the first moment at which anything was sent that may have ended it: a release, the removal of the pod,
a wipe of the store. Two such times that overlap where they must not are a violation, however the requests were ordered
in between; what is only possible is never reported.
"""

import bisect
import collections
import http.client
import json
import random
import socket
import threading
import time

LATE_S = 60  # what a request that got no answer may have done, it has done by then


class History:
    """What was asked and answered. Lists are appended to by many threads."""

    def __init__(self):
        self.allocations = []  # (sent, answered, call_sid, pod, pool, was_existing)
        self.releases = []  # (sent, answered, call_sid, pod or None if there was no such call); answered ones
        self.call_ends = collections.defaultdict(list)  # call_sid -> [(sent, answered)]: what may have ended it
        self.pod_ends = collections.defaultdict(list)  # pod -> the same for all its calls
        self.wipes = []  # the same for all calls
        self.outcomes = collections.Counter()
        self.no_answer = collections.Counter()  # by port
        self.unanswered = set()  # calls whose allocation got no answer: Redis may have carried it out behind their release
        self.avoided = set()  # ports of routers that are out of the rotation
        self.oddities = []  # answers that no router may give
        self.slowest_s = 0
        self.under_way = {}  # client -> when it sent what it waits for
        self.lock = threading.Lock()

    def count(self, outcome):
        with self.lock:
            self.outcomes[outcome] += 1

    def answers(self):
        """How many there are so far, refusals as well."""
        with self.lock:
            return sum(n for outcome, n in self.outcomes.items() if "None" not in outcome)

    def avoid(self, port):
        """Takes a router out of the rotation, and waits until it has answered what it was asked."""
        self.avoided.add(port)
        since = time.monotonic()
        while any(sent <= since for sent in list(self.under_way.values())):
            time.sleep(0.001)

    def may_have_ended(self, sent, answered, call_sid=None, pod=None):
        with self.lock:
            if call_sid:
                self.call_ends[call_sid].append((sent, answered))
            elif pod:
                self.pod_ends[pod].append((sent, answered))
            else:
                self.wipes.append((sent, answered))


class _Ends:
    """When is the first moment at which something sent may have ended what began at a given time?"""

    def __init__(self, ends):
        by_answer = sorted((answered, sent) for sent, answered in ends)
        self.answered = [answered for answered, _ in by_answer]
        self.first_sent = []  # from here on: the two that were sent first
        first = second = float("inf")
        for _, sent in reversed(by_answer):
            first, second = min(first, sent), min(second, max(first, sent))
            self.first_sent.append((first, second))
        self.first_sent.reverse()

    def after(self, begun, but=None):
        """`but`: when one was sent that does not count."""
        i = bisect.bisect_left(self.answered, begun)
        if i == len(self.answered):
            return float("inf")
        first, second = self.first_sent[i]
        return second if first == but else first


class _AllEnds:
    def __init__(self, history):
        self.calls = {call_sid: _Ends(ends) for call_sid, ends in history.call_ends.items()}
        self.pods = {pod: _Ends(ends) for pod, ends in history.pod_ends.items()}
        self.wipes = _Ends(history.wipes)
        self.nothing = _Ends([])

    def after(self, begun, call_sid, pod, but=None):
        return min(
            self.calls.get(call_sid, self.nothing).after(begun, but),
            self.pods.get(pod, self.nothing).after(begun),
            self.wipes.after(begun),
        )


def sure_times(history):
    """[(from, until, call_sid, pod, pool)]"""
    ends = _AllEnds(history)
    times = []
    for sent, answered, call_sid, pod, pool, _ in history.allocations:
        until = ends.after(sent, call_sid, pod)
        if until > answered:
            times.append((answered, until, call_sid, pod, pool))
    return times


def _two_pods(times):
    by_call = collections.defaultdict(list)
    for begin, until, call_sid, pod, _ in times:
        by_call[call_sid].append((begin, until, pod))
    for call_sid, spans in by_call.items():
        spans.sort()
        last_until, last_pod = 0, None
        for begin, until, pod in spans:
            if begin < last_until and pod != last_pod:
                yield f"call {call_sid} has pod {last_pod} and pod {pod} at {begin:.6f}"
            if until > last_until:
                last_until, last_pod = until, pod


def _too_many_calls(times, room):
    by_pod = collections.defaultdict(lambda: collections.defaultdict(list))
    pools = {}
    for begin, until, call_sid, pod, pool in times:
        by_pod[pod][call_sid].append((begin, until))
        pools[call_sid, pod, begin] = pool
    for pod, calls in by_pod.items():
        changes = []
        for call_sid, spans in calls.items():
            end = 0
            for begin, until in sorted(spans):
                if until > end:  # the same call counts once
                    changes.append((max(begin, end), 1, call_sid, pools[call_sid, pod, begin]))
                    changes.append((until, 0, call_sid, None))
                    end = until
        live = {}
        for at, is_begin, call_sid, pool in sorted(changes, key=lambda change: change[:3]):
            if not is_begin:
                live.pop(call_sid, None)
                continue
            live[call_sid] = pool
            # A pod changes its tier only while it is idle: all its calls are of one pool.
            if len(live) > min(room(of) for of in live.values()):
                yield f"pod {pod} has {sorted(live)} at {at:.6f}"


def _wrong_answers(history):
    ends = _AllEnds(history)
    by_call = collections.defaultdict(list)
    for sent, answered, call_sid, pod, _, was_existing in history.allocations:
        by_call[call_sid].append((answered, sent, pod, was_existing))
    for call_sid, answers in by_call.items():
        answers.sort()
        for (answered, sent, pod, _), (answered2, sent2, _, was_existing) in zip(answers, answers[1:]):
            if answered < sent2 and not was_existing and ends.after(sent, call_sid, pod) > answered2:
                yield f"call {call_sid} was allocated anew at {answered2:.6f} though it had {pod}"
    for sent, answered, call_sid, pod in history.releases:
        answers = by_call.get(call_sid, [])
        i = bisect.bisect_left(answers, (sent,))
        if i == 0:
            continue
        _, asked, had, _ = answers[i - 1]
        if ends.after(asked, call_sid, had, but=sent) > answered and pod != had:
            yield f"call {call_sid} had {had}, its release at {answered:.6f} says {pod}"


def violations(history, room):
    """room(pool): how many calls a pod of that pool may carry. Returns sentences; none if nothing is wrong."""
    times = sure_times(history)
    found = [*_two_pods(times), *_too_many_calls(times, room), *_wrong_answers(history), *history.oddities]
    return sorted(set(found))


class Client:
    """One connection to one of several routers at a time; reconnects by itself."""

    def __init__(self, history, urls, timeout_s=15):
        self.history = history
        self.ports = [int(url.rsplit(":", 1)[1]) for url in urls]
        self.timeout_s = timeout_s
        self.connections = {}

    def ask(self, method, path, body=None):
        """(status or None if there was no answer, JSON, when sent, when answered)"""
        sent = time.monotonic()
        self.history.under_way[id(self)] = sent  # before the choice: see History.avoid
        status, answer = self.send(self.choose(), method, path, body)
        answered = time.monotonic()
        self.history.under_way.pop(id(self))
        if status:
            self.history.slowest_s = max(self.history.slowest_s, answered - sent)
        return status, answer, sent, answered

    def choose(self):
        return random.choice([port for port in self.ports if port not in self.history.avoided] or self.ports)

    def send(self, port, method, path, body):
        """(status or None, JSON)"""
        try:
            conn = self.connections.get(port)
            if not conn:
                conn = self.connections[port] = http.client.HTTPConnection("127.0.0.1", port, timeout=self.timeout_s)
                conn.connect()
                conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            conn.request(method, path, json.dumps(body).encode() if body is not None else None)
            response = conn.getresponse()
            answer = json.loads(response.read())
            return response.status, answer
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.connections.pop(port, None)
            with self.history.lock:
                self.history.no_answer[port] += 1
            return None, {"error": repr(error)}

    def allocate(self, call_sid, **fields):
        """The pod, or None."""
        body = {"call_sid": call_sid, **fields}
        status, answer, sent, answered = self.ask("POST", "/api/v1/allocate", body)
        code = answer.get("code") if status != 200 else "existing" if answer.get("was_existing") else "new"
        self.history.count(f"allocate {status} {code}")
        if status == 200:
            entry = (sent, answered, call_sid, answer["pod_name"], answer["source_pool"], answer["was_existing"])
            self.history.allocations.append(entry)
            return answer["pod_name"]
        if status is None:
            self.history.unanswered.add(call_sid)
        elif status != 503:
            self.history.oddities.append(f"allocate {call_sid}: {status} {answer}")
        return None

    def release(self, call_sid):
        """True unless it is unknown whether there is such a call still."""
        status, answer, sent, answered = self.ask("POST", "/api/v1/release", {"call_sid": call_sid})
        self.history.count(f"release {status} {answer.get('code', '')}")
        is_known = status in (200, 404)
        self.history.may_have_ended(sent, answered if is_known else answered + LATE_S, call_sid=call_sid)
        if is_known:
            self.history.releases.append((sent, answered, call_sid, answer.get("pod_name")))
        elif status not in (None, 503):
            self.history.oddities.append(f"release {call_sid}: {status} {answer}")
        return is_known

    def end_pod(self, method, path, body=None):
        """Something that ends the calls of a pod."""
        pod = body["pod_name"] if body else path.rsplit("/", 1)[1]
        status, answer, sent, answered = self.ask(method, path, body)
        self.history.count(f"{method} pod {status}")
        self.history.may_have_ended(sent, answered if status in (200, 404) else answered + LATE_S, pod=pod)
        return status, answer

    def close(self):
        for conn in self.connections.values():
            conn.close()


_loads = []


def stop_all():
    """Whatever happened: nobody works any more."""
    for load in _loads:
        load.stopped.set()
        load.may_work.set()
    _loads.clear()


class Load:
    """Threads that work until they are told to stop; what they throw fails the test.

    With rest_s they work in bursts: all of them begin at once, and then leave the machine to others for a while.
    """

    def __init__(self, history, burst_s=0.3, rest_s=0):
        self.history = history
        self.stopped = threading.Event()
        self.may_work = threading.Event()
        self.may_work.set()
        self.threads = []
        self.errors = []
        _loads.append(self)
        if rest_s:
            threading.Thread(target=self._pace, args=(burst_s, rest_s), daemon=True).start()

    def _pace(self, burst_s, rest_s):
        while not self.stopped.wait(burst_s):
            self.may_work.clear()
            self.stopped.wait(rest_s)
            self.may_work.set()

    def start(self, work, *args):
        def run():
            try:
                while not self.stopped.is_set():
                    self.may_work.wait()
                    work(*args)
            except Exception as error:  # shown by stop()
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()

    def stop(self):
        self.stopped.set()
        self.may_work.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client hangs"
        if self.errors:
            raise self.errors[0]


class Callers:
    """Calls that come, stay for a moment and go; half of them asked for by several clients at once."""

    def __init__(self, history, urls, hot=8, hold_s=0.05, merchants=("",)):
        self.history = history
        self.urls = urls
        self.hot = hot
        self.hold_s = hold_s
        self.merchants = merchants
        self.number = 0
        self.unknown = set()  # calls whose release got no answer

    def one(self, load, client, rng):
        if rng.random() < 0.5:
            call_sid = f"hot-{rng.randrange(self.hot)}"
        else:
            with self.history.lock:
                self.number += 1
                call_sid = f"own-{self.number}"
        merchant = rng.choice(self.merchants)
        client.allocate(call_sid, **({"merchant_id": merchant} if merchant else {}))
        # Also after a refusal: what got no answer may have happened.
        time.sleep(rng.random() * self.hold_s)
        while not client.release(call_sid):
            if load.stopped.wait(0.05):
                self.unknown.add(call_sid)
                break

    def start(self, load, clients, seed=0):
        for i in range(clients):
            client = Client(self.history, self.urls)
            load.start(self.one, load, client, random.Random(seed * 1000 + i))

    def finish(self):
        """Releases what may be left. To be called when all is well again."""
        client = Client(self.history, self.urls)
        for call_sid in sorted(self.unknown | self.history.unanswered) + [f"hot-{i}" for i in range(self.hot)]:
            while not client.release(call_sid):
                time.sleep(0.1)
        client.close()
