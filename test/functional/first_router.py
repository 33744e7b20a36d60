"""A stand-in of the first implementation: its Redis commands, one after the other, in its order.

What it does is written down in four places of its documents: allocation, release, the watcher, and the reference of
its keys. Its races are part of it. It has three speeds:

    FirstRouter(server)                             one command after the other, as quickly as it can
    FirstRouter(server, pauses=(0.1, 0.05))         before one command of ten it sleeps for up to 50 ms
    FirstRouter(server, at_once=True)               each operation is one script: nobody comes in between

`pauses` may also be a function: it is called with each command before it is sent, and may wait, or raise what Redis
would have answered. With `at_once` the races between commands cannot happen, and what is left is what it means to do.

Many threads may use one FirstRouter. As a follower it answers clients; lead() makes it compete for `voice:leader`.
"""

import json
import pathlib
import random
import threading
import time

import redis

PREFIX = "voice:"
LEADER = PREFIX + "leader"
TIER_CONFIG = PREFIX + "tier:config"
MERCHANTS = PREFIX + "merchant:config"
METADATA = PREFIX + "pod:metadata"
OLD_TIERS = ("gold", "standard", "overflow")  # it removes pods from these whatever is configured
DEFAULT_MAX = 5
# A tier outside the chain is a merchant's pool.
NINE = {
    "tiers": {
        "gold": {"type": "exclusive", "target": 1},
        "standard": {"type": "exclusive", "target": 1},
        "basic": {"type": "shared", "target": 1, "max_concurrent": 3},
        "9shines": {"type": "exclusive", "target": 2},
    },
    "default_chain": ["gold", "standard", "basic"],
}

PRODUCTION = {
    "tiers": {
        "gold": {"type": "exclusive", "target": 1},
        "standard": {"type": "exclusive", "target": 1},
        "basic": {"type": "shared", "target": 1, "max_concurrent": 3},
    },
    "default_chain": ["gold", "standard", "basic"],
}

LOCK = """
local existing = redis.call('HGETALL', KEYS[1])
if #existing > 0 then
    return existing
end
redis.call('HSET', KEYS[1], '_lock', '1')
redis.call('EXPIRE', KEYS[1], 30)
return {}
"""

TAKE_SHARED = """
local max_concurrent = tonumber(ARGV[1])
local result = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #result, 2 do
    if tonumber(result[i + 1]) >= max_concurrent then
        return nil
    end
    if redis.call('EXISTS', 'voice:pod:draining:' .. result[i]) == 0 then
        redis.call('ZINCRBY', KEYS[1], 1, result[i])
        return result[i]
    end
end
return nil
"""

GIVE_SHARED = """
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if score == false then
    return -1
end
if tonumber(score) > 0 then
    return tonumber(redis.call('ZINCRBY', KEYS[1], -1, ARGV[1]))
end
return 0
"""

AT_ONCE = pathlib.Path(__file__).with_name("first_router.lua").read_text(encoding="ascii")


def keys_of_a_call(allocated_at, **more):
    """The keys of the guide's example, "call-abc123" on the pod of gold; `more` is for the call's own record."""
    return {
        "voice:call:call-abc123": {
            "pod_name": "voice-agent-0",
            "source_pool": "pool:gold",
            "merchant_id": "acme-corp",
            "allocated_at": allocated_at,
            **more,
        },
        "voice:lease:voice-agent-0": "call-abc123",
        "voice:pod:voice-agent-0": {
            "status": "allocated",
            "allocated_call_sid": "call-abc123",
            "allocated_at": allocated_at,
            "source_pool": "pool:gold",
        },
    }


class Refused(Exception):
    """The answer is an error: `status` as over HTTP."""

    def __init__(self, status, error):
        super().__init__(error)
        self.status = status
        self.error = error


class Config:
    """A stored tier configuration as it reads it: an envelope, or a map of tiers."""

    def __init__(self, text):
        stored = json.loads(text)
        tiers = stored.get("tiers", stored)
        self.tiers = {name: tier if isinstance(tier, dict) else {"target": tier} for name, tier in tiers.items()}
        exclusive = sorted(name for name in self.tiers if not self.is_shared(name))
        shared = sorted(name for name in self.tiers if self.is_shared(name))
        self.chain = stored.get("default_chain") or exclusive + shared
        self.merchant_pools = [name for name in exclusive if name not in self.chain]

    def is_shared(self, name):
        return self.tiers.get(name, {}).get("type") == "shared"

    def target(self, name):
        return self.tiers.get(name, {}).get("target", 0)

    def most(self, name):
        most = self.tiers[name].get("max_concurrent", 0)
        return most if most > 0 else DEFAULT_MAX

    def as_json(self):
        """For the script."""
        tiers = {
            name: {"shared": self.is_shared(name), "target": self.target(name), "most": self.most(name)}
            for name in self.tiers
        }
        return {"tiers": tiers, "names": sorted(tiers), "chain": self.chain, "merchant_pools": self.merchant_pools}


def call_key(call_sid):
    return f"{PREFIX}call:{call_sid}"


def lease_key(pod):
    return f"{PREFIX}lease:{pod}"


def draining_key(pod):
    return f"{PREFIX}pod:draining:{pod}"


def tier_key(pod):
    return f"{PREFIX}pod:tier:{pod}"


def pod_key(pod):
    return f"{PREFIX}pod:{pod}"


def calls_key(pod):
    return f"{PREFIX}pod:{pod}:calls"


def assigned_key(tier):
    kind, _, name = tier.partition(":")
    return f"{PREFIX}merchant:{name}:assigned" if kind == "merchant" else f"{PREFIX}pool:{tier}:assigned"


def available_key(tier):
    kind, _, name = tier.partition(":")
    return f"{PREFIX}merchant:{name}:pods" if kind == "merchant" else f"{PREFIX}pool:{tier}:available"


def source_pool(tier):
    return tier if tier.startswith("merchant:") else f"pool:{tier}"


def tier_of_source(source):
    return source[len("pool:") :] if source.startswith("pool:") else source


class FirstRouter:
    """`tiers` is stored as voice:tier:config if there is none yet; from then on the stored one counts."""

    def __init__(
        self,
        server,
        name="first-0",
        tiers=None,
        pauses=None,
        at_once=False,
        keeps_sets=False,  # newer builds: voice:pod:{pod}:calls
        names_resellers=False,  # reseller_id in the records instead of merchant_id
        lease_s=900,
        record_s=86400,
        draining_s=360,
        refresh_s=30,
        seed=0,
    ):
        self.redis = server.client()
        self.name = name
        self.pauses = pauses
        self.at_once = at_once
        self.keeps_sets = keeps_sets
        self.merchant_field = "reseller_id" if names_resellers else "merchant_id"
        self.lease_s = lease_s
        self.record_s = record_s
        self.draining_s = draining_s
        self.refresh_s = refresh_s
        self.random = random.Random(seed)
        self.script = self.redis.register_script(AT_ONCE)
        self.leading = None
        self.seeded = json.dumps(tiers or PRODUCTION)
        self.redis.set(TIER_CONFIG, self.seeded, nx=True)
        self.read_tiers()

    # One command at a time.

    def do(self, *command):
        if callable(self.pauses):
            self.pauses(*command)
        elif self.pauses:
            probability, longest_s = self.pauses
            if self.random.random() < probability:
                time.sleep(self.random.random() * longest_s)
        return self.redis.execute_command(*command)

    def _do_at_once(self, operation, *args):
        settings = {
            **self.config.as_json(),
            "lease_s": self.lease_s,
            "record_s": self.record_s,
            "draining_s": self.draining_s,
            "keeps_sets": self.keeps_sets,
            "merchant_field": self.merchant_field,
            "now": str(int(time.time())),
        }
        return json.loads(self.script(args=[operation, json.dumps(settings), *args]))

    # The configuration.

    def read_tiers(self):
        self.config = Config(self.redis.get(TIER_CONFIG) or self.seeded)
        self.read_at = time.monotonic()

    def _refresh(self):
        if time.monotonic() - self.read_at > self.refresh_s:
            self.read_tiers()

    def _merchant(self, merchant_id):
        if not merchant_id:
            return {}
        try:
            config = json.loads(self.do("HGET", MERCHANTS, merchant_id) or "{}")
        except (redis.RedisError, ValueError):
            return {}
        return config if isinstance(config, dict) else {}

    def _chain(self, merchant):
        chain = merchant.get("fallback") or self.config.chain
        return [f"merchant:{merchant['pool']}", *chain] if merchant.get("pool") else chain

    # Allocation.

    def allocate(self, call_sid, merchant_id=""):
        """Returns the answer; raises Refused."""
        if not call_sid:
            raise Refused(400, "call_sid is required")
        self._refresh()
        if self.at_once:
            answer = self._do_at_once("allocate", call_sid, merchant_id)
            if not answer.get("pod_name"):
                raise Refused(503, "no pods available")
            return {"success": True, **answer}
        try:
            pairs = self.do("EVAL", LOCK, 1, call_key(call_sid))
        except redis.RedisError:
            pairs = []  # rather two pods than none
        existing = dict(zip(pairs[::2], pairs[1::2]))
        if existing.get("pod_name"):
            return self._answer(existing["pod_name"], existing.get("source_pool", ""), was_existing=True)
        for tier in self._chain(self._merchant(merchant_id)):
            try:
                pod = self._take(tier)
            except redis.RedisError:
                pod = None
            if pod:
                break
        else:
            raise Refused(503, "no pods available")  # the lock stays, for 30 s
        try:
            self._store(call_sid, pod, tier, merchant_id)
        except redis.RedisError as error:
            self._return_to_pool(pod, tier)
            raise Refused(500, "storage error") from error
        return self._answer(pod, source_pool(tier), was_existing=False)

    @staticmethod
    def _answer(pod, source, was_existing):
        return {"success": True, "pod_name": pod, "source_pool": source, "was_existing": was_existing}

    def _take(self, tier):
        if not tier.startswith("merchant:") and tier not in self.config.tiers:
            return None
        if self.config.is_shared(tier):
            return self.do("EVAL", TAKE_SHARED, 1, available_key(tier), self.config.most(tier))
        return self._take_exclusive(available_key(tier))

    def _take_exclusive(self, key):
        for _ in range(10):
            pod = self.do("SPOP", key)
            if not pod:
                return None
            try:
                is_draining = self.do("EXISTS", draining_key(pod))
            except redis.RedisError:
                self.do("SADD", key, pod)
                raise
            if not is_draining:
                return pod
            # A draining one is not put back.
        return None

    def _store(self, call_sid, pod, tier, merchant_id):
        now = str(int(time.time()))
        source = source_pool(tier)
        record = ["pod_name", pod, "source_pool", source, self.merchant_field, merchant_id, "allocated_at", now]
        self.do("HSET", call_key(call_sid), *record)
        self.do("HDEL", call_key(call_sid), "_lock")
        self.do("EXPIRE", call_key(call_sid), self.record_s)
        state = ["status", "allocated", "allocated_call_sid", call_sid, "allocated_at", now, "source_pool", source]
        self.do("HSET", pod_key(pod), *state)
        self.do("SET", lease_key(pod), call_sid, "EX", self.lease_s)
        if self.keeps_sets and self.config.is_shared(tier):
            self.do("SADD", calls_key(pod), call_sid)

    def _return_to_pool(self, pod, tier):
        try:
            if self.config.is_shared(tier):
                self.do("ZINCRBY", available_key(tier), -1, pod)
            else:
                self.do("SADD", available_key(tier), pod)
        except redis.RedisError:
            pass  # its zombie cleanup is to find it

    # Release.

    def release(self, call_sid):
        """Returns the answer; raises Refused."""
        if not call_sid:
            raise Refused(400, "call_sid is required")
        self._refresh()
        if self.at_once:
            answer = self._do_at_once("release", call_sid)
            if not answer.get("pod_name"):
                raise Refused(404 if answer["error"] == "call not found" else 500, answer["error"])
            return {"success": True, **answer}
        record = self.do("HGETALL", call_key(call_sid))
        if not record:
            raise Refused(404, "call not found")
        pod, source = record.get("pod_name"), record.get("source_pool")
        if not pod or not source:
            raise Refused(500, "incomplete call info")
        was_draining = self.do("EXISTS", draining_key(pod)) > 0
        tier = tier_of_source(source)
        is_shared = self.config.is_shared(tier)
        calls_left = 0
        if not was_draining:
            if is_shared:
                calls_left = self.do("EVAL", GIVE_SHARED, 1, available_key(tier), pod)
            elif not self.do("EXISTS", draining_key(pod)):
                self.do("SADD", available_key(tier), pod)
        if calls_left <= 0:
            self.do("DEL", lease_key(pod))
        status = "draining" if was_draining else "available"
        state = ["status", status, "allocated_call_sid", "", "allocated_at", "", "released_at", str(int(time.time()))]
        self.do("HSET", pod_key(pod), *state)
        self.do("DEL", call_key(call_sid))
        if self.keeps_sets and is_shared:
            self.do("SREM", calls_key(pod), call_sid)
        return {"success": True, "pod_name": pod, "released_to_pool": source, "was_draining": was_draining}

    # Drain and status.

    def drain(self, pod, ttl_s=None):
        self._refresh()
        ttl_s = ttl_s or self.draining_s
        if self.at_once:
            has_call = self._do_at_once("drain", pod, ttl_s)["has_active_call"]
        else:
            has_call = self.do("EXISTS", lease_key(pod)) > 0
            tier = self.do("GET", tier_key(pod))
            if tier:
                self.do("ZREM" if self.config.is_shared(tier) else "SREM", available_key(tier), pod)
            self.do("SET", draining_key(pod), "true", "EX", ttl_s)
        return {"success": True, "pod_name": pod, "has_active_call": has_call, "message": "Pod drained successfully"}

    def status(self):
        self._refresh()
        pools = {}
        for name in self.config.tiers:
            tier = f"merchant:{name}" if name in self.config.merchant_pools else name
            pools[f"{tier}:assigned"] = self.do("SCARD", assigned_key(tier))
            count = "ZCARD" if self.config.is_shared(name) else "SCARD"
            pools[f"{tier}:available"] = self.do(count, available_key(tier))
        calls = sum(1 for _ in self.redis.scan_iter(lease_key("*"), count=1000))
        return {"pools": pools, "active_calls": calls, "is_leader": self.is_leading, "status": "up"}

    def ask(self, method, path, body=None):
        """As over HTTP: (status, JSON)."""
        body = body or {}
        merchant_id = body.get("merchant_id") or body.get("reseller_id") or ""
        routes = {
            ("POST", "/api/v1/allocate"): lambda: self.allocate(body.get("call_sid"), merchant_id),
            ("POST", "/api/v1/release"): lambda: self.release(body.get("call_sid")),
            ("POST", "/api/v1/drain"): lambda: self.drain(body["pod_name"], body.get("ttl_seconds")),
            ("GET", "/api/v1/status"): self.status,
        }
        try:
            return 200, routes[method, path]()
        except Refused as refused:
            return refused.status, {"success": False, "error": refused.error}
        except redis.RedisError as error:
            return 500, {"success": False, "error": str(error)}

    # The pool manager: what the watcher and the full sync do to one pod.

    def is_pod_registered(self, pod):
        try:
            for name in self.config.tiers:
                if self.do("SISMEMBER", assigned_key(name), pod):
                    return True
                if not self.config.is_shared(name) and self.do("SISMEMBER", assigned_key(f"merchant:{name}"), pod):
                    return True
        except redis.RedisError:
            return True
        return False

    def is_pod_eligible(self, pod):
        try:
            return not self.do("EXISTS", lease_key(pod)) and not self.do("EXISTS", draining_key(pod))
        except redis.RedisError:
            return False

    def auto_assign_tier(self, pod):
        tier = self.do("GET", tier_key(pod))
        if tier:
            return tier
        merchants = [f"merchant:{name}" for name in self.config.merchant_pools]
        shared = [name for name in sorted(self.config.tiers) if self.config.is_shared(name)]
        for tier in [*merchants, "gold", *shared, "standard", "overflow"]:
            target = self.config.target(tier.partition("merchant:")[2] or tier)
            if target and self.do("SCARD", assigned_key(tier)) < target:
                return tier
        return "standard"

    def add_pod_to_pool(self, pod):
        if self.at_once:
            self._do_at_once("add", pod)
            return
        tier = self.do("GET", tier_key(pod))
        if tier:
            self.ensure_pod_in_pool(pod, tier)
            return
        tier = self.auto_assign_tier(pod)
        self.do("HSET", METADATA, pod, json.dumps({"tier": tier, "name": pod}, separators=(",", ":")))
        self.do("SADD", assigned_key(tier), pod)
        self.do("SET", tier_key(pod), tier)
        self._make_available(pod, tier)

    def ensure_pod_in_pool(self, pod, tier):
        self.do("SADD", assigned_key(tier), pod)
        self._make_available(pod, tier)

    def _make_available(self, pod, tier):
        if not self.is_pod_eligible(pod):
            return
        if self.config.is_shared(tier):
            self.do("ZADD", available_key(tier), "NX", 0, pod)
        else:
            self.do("SADD", available_key(tier), pod)

    def remove_pod_from_pool(self, pod):
        if self.at_once:
            self._do_at_once("remove", pod)
            return
        for name in sorted(self.config.tiers):
            self.do("SREM", assigned_key(name), pod)
            if self.config.is_shared(name):
                self.do("ZREM", available_key(name), pod)
                continue
            self.do("SREM", available_key(name), pod)
            self.do("SREM", assigned_key(f"merchant:{name}"), pod)
            self.do("SREM", available_key(f"merchant:{name}"), pod)
        for name in OLD_TIERS:
            if name not in self.config.tiers:
                self.do("SREM", assigned_key(name), pod)
                self.do("SREM", available_key(name), pod)
        call_sid = self.do("HGET", pod_key(pod), "allocated_call_sid")
        if call_sid:
            self.do("DEL", call_key(call_sid))
        if self.keeps_sets:
            for call_sid in sorted(self.do("SMEMBERS", calls_key(pod))):
                self.do("DEL", call_key(call_sid))
            self.do("DEL", calls_key(pod))
        self.do("HDEL", METADATA, pod)
        self.do("DEL", pod_key(pod))
        self.do("DEL", tier_key(pod))
        self.do("DEL", lease_key(pod))
        self.do("DEL", draining_key(pod))

    # The watcher.

    def pod_added(self, pod):
        self.add_pod_to_pool(pod)

    def pod_modified(self, pod, is_ready):
        is_registered = self.is_pod_registered(pod)
        if is_ready and not is_registered:
            self.add_pod_to_pool(pod)
        elif not is_ready and is_registered:
            self.remove_pod_from_pool(pod)

    def pod_deleted(self, pod):
        self.remove_pod_from_pool(pod)

    # The timers.

    def all_redis_pods(self):
        found = set()
        for name in self.config.tiers:
            found |= set(self.do("SMEMBERS", assigned_key(name)))
            if not self.config.is_shared(name):
                found |= set(self.do("SMEMBERS", assigned_key(f"merchant:{name}")))
        return found

    def full_sync(self, pods):
        """`pods`: the names of those that exist and are ready."""
        self._refresh()
        known = self.all_redis_pods()
        for pod in pods:
            self.add_pod_to_pool(pod)
        for pod in sorted(known - set(pods)):
            self.remove_pod_from_pool(pod)

    def cleanup_zombies(self):
        """Pods of merchants' pools are not looked at: those come back with the full sync. Returns what it put back."""
        self._refresh()
        recovered = []
        for name in sorted(self.config.tiers):
            for pod in sorted(self.do("SMEMBERS", assigned_key(name))):
                if self.at_once:
                    is_lost = self._do_at_once("zombie", name, pod)["recovered"]
                else:
                    is_lost = self._recover(name, pod)
                if is_lost:
                    recovered.append(pod)
        return recovered

    def _recover(self, tier, pod):
        if self.do("EXISTS", draining_key(pod)):
            return False
        if self.config.is_shared(tier):
            if self.do("ZSCORE", available_key(tier), pod) is not None:
                return False
            self.do("ZADD", available_key(tier), 0, pod)
            return True
        if self.do("EXISTS", lease_key(pod)) or self.do("SISMEMBER", available_key(tier), pod):
            return False
        if not self.is_pod_eligible(pod):
            return False
        self.do("SADD", available_key(tier), pod)
        return True

    # Leadership.

    @property
    def is_leading(self):
        return bool(self.leading and self.leading.is_leader.is_set())

    def lead(self, pods, zombies_s=30, sync_s=60, retry_s=2):
        """Competes for the lead from now on; leads with these pods once it has it. `pods`: a list that may change."""
        assert not self.leading
        self.leading = _Leading(self, pods, zombies_s, sync_s, retry_s)

    def stop_leading(self, gives_up=True):
        """Without gives_up the key has to run out, as after a crash."""
        if self.leading:
            leading, self.leading = self.leading, None
            leading.stop(gives_up)

    def close(self):
        self.stop_leading()
        self.redis.close()


class _Leading:
    """Two threads: one keeps the lead, the other one works while there is one."""

    DURATION_S = 15

    def __init__(self, router, pods, zombies_s, sync_s, retry_s):
        self.router = router
        self.pods = pods
        self.zombies_s = zombies_s
        self.sync_s = sync_s
        self.retry_s = retry_s
        self.is_leader = threading.Event()
        self.stopped = threading.Event()
        self.errors = []
        self.threads = [threading.Thread(target=run, args=(work,), daemon=True) for run, work in self._jobs()]
        for thread in self.threads:
            thread.start()

    def _jobs(self):
        return [(self._guard, self._elect), (self._guard, self._work)]

    def _guard(self, work):
        try:
            while not self.stopped.is_set():
                try:
                    work()
                except redis.RedisError:
                    self.stopped.wait(self.retry_s)  # it logs it and tries again
        except Exception as error:  # shown by stop()
            self.errors.append(error)

    def _elect(self):
        client, name = self.router.redis, self.router.name
        if client.set(LEADER, name, nx=True, ex=self.DURATION_S):
            self.is_leader.set()
        elif client.get(LEADER) == name:
            client.set(LEADER, name, xx=True, ex=self.DURATION_S)
            self.is_leader.set()
        else:
            self.is_leader.clear()
        self.stopped.wait(self.retry_s)

    def _work(self):
        if not self.is_leader.wait(0.05):
            return
        self.router.full_sync(list(self.pods))
        next_sync = time.monotonic() + self.sync_s
        next_zombies = time.monotonic() + self.zombies_s
        while self.is_leader.is_set() and not self.stopped.wait(0.02):
            if time.monotonic() >= next_zombies:
                self.router.cleanup_zombies()
                next_zombies = time.monotonic() + self.zombies_s
            if time.monotonic() >= next_sync:
                self.router.full_sync(list(self.pods))
                next_sync = time.monotonic() + self.sync_s

    def stop(self, gives_up):
        self.stopped.set()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a thread of the first router hangs"
        if gives_up and self.router.redis.get(LEADER) == self.router.name:
            self.router.redis.delete(LEADER)
        if self.errors:
            raise self.errors[0]


class Stop:
    """pauses=Stop("SET"): the thread that is about to send this command stands still until it is let go."""

    def __init__(self, *command):
        self.command = list(command)
        self.is_there = threading.Event()
        self.may_go = threading.Event()

    def __call__(self, *command):
        if list(command[: len(self.command)]) == self.command and not self.is_there.is_set():
            self.is_there.set()
            assert self.may_go.wait(60)


class Aside:
    """Something that happens in a thread of its own; finish() waits for it and returns what it returned, or throws."""

    def __init__(self, work, *args):
        self.result = None
        self.error = None
        self.thread = threading.Thread(target=self._run, args=(work, *args), daemon=True)
        self.thread.start()

    def _run(self, work, *args):
        try:
            self.result = work(*args)
        except Exception as error:  # thrown by finish()
            self.error = error

    def finish(self):
        self.thread.join(60)
        assert not self.thread.is_alive()
        if self.error:
            raise self.error
        return self.result
