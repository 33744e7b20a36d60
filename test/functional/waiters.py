"""Clients that wait for a pod, and judges of how they fared.

A waiter writes down each of its requests, with the times at which it was sent and answered. The judges report only what cannot
have been right, however the requests were ordered in between.
"""

import collections
import dataclasses
import json
import random
import select
import time

import load

SURELY_HEARD_S = 14  # a call that is silent for 15 s is passed over
ROUNDING_S = 0.005  # places are whole milliseconds


@dataclasses.dataclass
class Merchant:
    name: str
    pools: tuple  # of its chain
    priority: int = 0
    hold_s: float = 20  # a call that has waited for longer is passed over


@dataclasses.dataclass
class Wait:
    """One call that wanted to wait. `asks`: (sent, answered, status or None, pod, pool), in their order."""

    call_sid: str
    merchant: Merchant
    asks: list = dataclasses.field(default_factory=list)
    end: str = ""  # granted, released, closed, silent, no_pods, conflict; or unknown: the clients were stopped
    ended_at: float = 0
    last_sent: float = 0  # the request that brought the end
    was_waiting: bool = False  # what the answer to its release says
    sightings: list = dataclasses.field(default_factory=list)  # (sent, answered) of looks at the line that showed it

    @property
    def has_waited(self):
        """Surely: it was told so."""
        return any(status == 202 for _, _, status, _, _ in self.asks)

    def lifetime(self):
        """Somewhere in this time it began and ended, and routers told of it."""
        begun = self.asks[0][0] if self.asks else self.last_sent
        return begun, float("inf") if self.end in ("closed", "silent") else self.ended_at + 0.5

    def proofs(self):
        """[(sent, answered)]: somewhere between it stood in line, and was not overdue."""
        over_at = self.asks[0][0] + self.merchant.hold_s if self.asks else 0
        heard = [sent for sent, _, status, _, _ in self.asks if status in (200, 202)]
        proofs = [(sent, answered) for sent, answered, status, _, _ in self.asks if status == 202]
        for sent, answered in self.sightings:
            if any(at < sent and answered < at + SURELY_HEARD_S for at in heard):
                proofs.append((sent, answered))
        return sorted(proof for proof in proofs if proof[1] < over_at)

    def in_line(self, pod_ends):
        """[(from, until)]: the times at which it surely stood in line and was heard.

        Between two answers it may have been granted a pod that went before it asked again: then it had a pod for a while, and is back
        at its place. So no pod of its pools may have ended between them. `pod_ends`: pool -> [(sent, answered)].
        """
        spans, since, last = [], None, None  # `since` the answer to the first proof of an unbroken row, `last` when the last was sent
        ends = [end for pool in self.merchant.pools for end in pod_ends.get(pool, ())]
        for sent, answered in self.proofs():
            is_unbroken = since is not None and answered - last < SURELY_HEARD_S
            if not is_unbroken or any(begun <= answered and last <= ended for begun, ended in ends):
                if since is not None:
                    spans.append((since, last))
                since = answered
            last = sent
        if since is not None:
            spans.append((since, last))
        return [(begin, until) for begin, until in spans if until > begin]


def overtakers(waits, allocations, pod_ends, ageing_s):
    """Sentences about calls that surely got a pod of a pool before another one that surely stood in line for it, in front.

    `allocations`: (sent, answered, pool, call_sid) of calls that did not want to wait, and got a pod.
    """
    spans = collections.defaultdict(list)  # by the seconds that they cover
    for wait in waits:
        for begin, until in wait.in_line(pod_ends):
            for second in range(int(begin), int(until) + 1):
                spans[second].append((begin, until, wait))
    found = []
    for wait in waits:
        granted = [ask for ask in wait.asks if ask[2] == 200]
        if not granted:
            continue
        sent, (_, answered, _, _, pool) = wait.asks[0][0], granted[0]
        # Until then it surely had no pod yet.
        without = max([sent, *(asked for asked, _ in wait.proofs())])
        its_place = sent - wait.merchant.priority * ageing_s
        for begin, until, other in spans[int(answered)]:
            is_before = begin - other.merchant.priority * ageing_s + ROUNDING_S < its_place
            if other is not wait and pool in other.merchant.pools and is_before and begin < without and answered < until:
                found.append(
                    f"{wait.call_sid} asked first at {sent:.4f} and had a pod of {pool} at {answered:.4f}, but {other.call_sid} stood in "
                    f"line for it, in front, from {begin:.4f} to {until:.4f}"
                )
    for sent, answered, pool, call_sid in allocations:
        for begin, until, other in spans[int(answered)]:
            if begin < sent and answered < until and pool in other.merchant.pools:
                found.append(f"{call_sid} took a pod of {pool} in {sent:.4f}-{answered:.4f}, past {other.call_sid}, which waited for it")
    return found


class Waiter(load.Client):
    """Asks for a pod with `wait` or `wait_ms`, again and again, until it has one, is refused, or has had enough of it."""

    def __init__(self, history, urls, merchants, seed):
        super().__init__(history, urls, timeout_s=30)
        self.merchants = merchants
        self.rng = random.Random(seed)
        self.waits = []
        self.name = f"w{seed}-"
        self.code = None  # of the latest answer

    def _note(self, wait, sent, status, answer):
        answered, self.code = time.monotonic(), answer.get("code")
        pod, pool = (answer["pod_name"], answer["source_pool"]) if status == 200 else (None, None)
        wait.asks.append((sent, answered, status, pod, pool))
        self.history.count(f"wait {status} {answer.get('code', '')}")
        if status == 200:
            self.history.allocations.append((sent, answered, wait.call_sid, pod, pool, answer["was_existing"]))
        elif status is None:
            self.history.unanswered.add(wait.call_sid)
        elif status not in (202, 503):
            self.history.oddities.append(f"wait {wait.call_sid}: {status} {answer}")

    def _end(self, wait, how, sent):
        wait.end, wait.ended_at, wait.last_sent = how, time.monotonic(), sent

    def _body(self, wait):
        body = {"call_sid": wait.call_sid, "merchant_id": wait.merchant.name}
        if self.rng.random() < 0.6:
            return {**body, "wait_ms": self.rng.choice((100, 700, 3000))}
        return {**body, "wait": True}

    def _ask_and_close(self, wait, patience_s):
        """Closes the connection of a request that is kept open. Returns whether that was before the answer."""
        sent = time.monotonic()
        port = self.choose()
        self.connections.pop(port, None)
        try:
            status, answer = None, {}
            conn = load.http.client.HTTPConnection("127.0.0.1", port, timeout=self.timeout_s)
            conn.request("POST", "/api/v1/allocate", json.dumps({**self._body(wait), "wait_ms": 20000}).encode())
            if select.select([conn.sock], [], [], patience_s)[0]:
                response = conn.getresponse()
                status, answer = response.status, json.loads(response.read())
            else:
                conn.close()
                self._end(wait, "closed", sent)
                self.history.may_have_ended(sent, time.monotonic() + load.LATE_S, call_sid=wait.call_sid)
                return True
        except (OSError, load.http.client.HTTPException, ValueError):
            self.history.count("wait None closed")
        self._note(wait, sent, status, answer)
        conn.close()
        return False

    def _release(self, wait, is_stopped):
        """Until it is answered. Returns the answer's `was_waiting`, and when it was sent first."""
        first = time.monotonic()
        while not is_stopped():
            status, answer, sent, answered = self.ask("POST", "/api/v1/release", {"call_sid": wait.call_sid})
            is_known = status in (200, 404)
            self.history.may_have_ended(sent, answered if is_known else answered + load.LATE_S, call_sid=wait.call_sid)
            self.history.count(f"release {status} {'waiting' if answer.get('was_waiting') else ''}")
            if is_known:
                if not answer.get("was_waiting"):
                    self.history.releases.append((sent, answered, wait.call_sid, answer.get("pod_name")))
                return bool(answer.get("was_waiting")), first
            time.sleep(0.05)
        return False, first

    def one(self, is_stopped, is_rush, may_be_silent):
        wait = Wait(f"{self.name}{len(self.waits)}", self.rng.choice(self.merchants))
        self.waits.append(wait)
        plan = self.rng.choice(("stays",) * 7 + ("releases", "closes", "closes"))
        if may_be_silent():
            plan = "silent"
        patience = time.monotonic() + self.rng.random() * 1.5
        while not wait.end:
            if plan == "closes" and self._ask_and_close(wait, max(0.01, patience - time.monotonic())):
                return
            if plan != "closes" or not wait.asks:
                status, answer, sent, _ = self.ask("POST", "/api/v1/allocate", self._body(wait))
                self._note(wait, sent, status, answer)
            sent, answered, status, _, _ = wait.asks[-1]
            if status == 200:
                self._end(wait, "granted", sent)
                time.sleep(self.rng.random() * 0.25)
                self._release(wait, lambda: False)
            elif status == 503 and self.code == "no_pods":
                self._end(wait, "no_pods", sent)
                self._release(wait, lambda: False)  # an earlier request that got no answer may have got a pod
            elif status == 409:
                self._end(wait, "conflict", sent)
            elif plan == "silent" and status == 202:
                self._end(wait, "silent", sent)
                self.history.may_have_ended(sent, time.monotonic() + load.LATE_S, call_sid=wait.call_sid)
            elif is_stopped() or (plan == "releases" and answered > patience):
                wait.was_waiting, sent = self._release(wait, lambda: False)
                self._end(wait, "released", sent)
            elif status == 202:
                time.sleep(self.rng.random() * 0.4)
        time.sleep(self.rng.random() * (0.05 if is_rush() else 2))


OUTCOMES = ("granted", "abandoned", "timed_out", "full")
ENDS = ("allocated", "timed_out", "abandoned")


def ends_of(events):
    """call_sid -> Counter of call_waiting and of what ended the wait."""
    told = collections.defaultdict(collections.Counter)
    for kind, data in events:
        if kind == "wait_ended":
            told[data["call_sid"]][data["reason"]] += 1
        elif kind in ("call_waiting", "allocated", "released", "ended", "refused"):
            told[data["call_sid"]][kind] += 1
    return told


def wrong_counts(waits, told, counts, is_disturbed):
    """The metrics say the same as the events, but for what routers have not told that were killed."""
    seen = collections.Counter()
    for wait in waits:
        ends = told[wait.call_sid]
        seen["granted"] += ends["allocated"] if ends["call_waiting"] else 0
        seen["full"] += wait.end == "no_pods" and not ends["call_waiting"]
        for name in ("abandoned", "timed_out"):
            seen[name] += ends[name]
    disturbed = sum(is_disturbed(*wait.lifetime()) for wait in waits)
    for name in OUTCOMES:
        if abs(seen[name] - counts[name]) > disturbed:
            yield f"{name}: {seen[name]} by the events, {counts[name]} by the metrics; {disturbed} may be missing"


def wrong_ends(waits, told, is_disturbed):
    """Each wait ends once, as its client was told. is_disturbed(from, until): a router was killed then, and events may be lost."""
    for wait in waits:
        seen = told[wait.call_sid]
        ends = sum(seen[name] for name in ENDS)
        what = f"{wait.call_sid} of {wait.merchant.name}: {wait.end}, was_waiting {wait.was_waiting}, {dict(seen)}, {wait.asks}"
        # Whose router was killed with the answer may have had a pod, which went away: then its call begins anew.
        lost = sum(status is None for _, _, status, *_ in wait.asks)
        if seen["call_waiting"] > 1 + min(lost, seen["ended"]):
            yield f"joined the line {seen['call_waiting']} times: {what}"
        elif ends > 1:
            yield f"ended {ends} times: {what}"
        elif is_disturbed(*wait.lifetime()):
            continue
        elif ends == 0 and (seen["call_waiting"] or wait.has_waited or wait.end == "granted"):
            yield f"did not end: {what}"
        elif wait.has_waited and not seen["call_waiting"]:
            yield f"did not begin: {what}"
        elif wait.end == "granted" and not seen["allocated"]:
            yield f"not granted: {what}"
        elif wait.end == "no_pods" and (seen["allocated"] or seen["abandoned"] or bool(seen["timed_out"]) != bool(seen["call_waiting"])):
            yield f"not refused: {what}"
        elif wait.end == "released" and seen["call_waiting"] and not seen["abandoned"] and not seen["timed_out"]:
            yield f"not abandoned: {what}"
