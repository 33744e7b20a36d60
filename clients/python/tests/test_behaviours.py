"""Every row of clients/behaviours/table.json, which the C library executes as well."""

import asyncio
import dataclasses
import hashlib
import json

import pytest
import tree
from scripted import FakeClock, ScriptedRouter
from smartrouter import Breaker, Client, Hooks, Rollout, RouterError, Settings, bucket_of

TABLE = json.loads((tree.PACKAGE.parent / "behaviours/table.json").read_text())
CONTROL = ("do", "exchanges", "waits_ms", "expect", "positions", "breaker", "pending_releases")


def environment_of(row):
    merged = {**TABLE["environment"], **row.get("environment", {})}
    return {name: value for name, value in merged.items() if value is not None}


def named(value, group):
    return TABLE[group][value] if isinstance(value, str) else value


class Runner:
    """One row."""

    def __init__(self, row):
        settings = dataclasses.replace(Settings.from_env(environment_of(row)), **row.get("options", {}))
        self.clock = FakeClock()
        self.router = ScriptedRouter(self.clock, lambda call_sid: self.client.stop_waiting(call_sid))
        self.positions = []
        self.client = Client(
            settings,
            breaker=Breaker.of(settings, self.clock.now),
            clock=self.clock,
            jitter=lambda: 0.0,
            transport=self.router,
            hooks=Hooks(),
        )
        self.client.background.run_by_hand()
        self.contexts = {}

    async def step(self, step):
        self.router.script = [(named(r, "requests"), named(a, "answers")) for r, a in step.get("exchanges", [])]
        self.clock.waits_ms = []
        self.positions.clear()
        arguments = {name: value for name, value in step.items() if name not in CONTROL}
        if "wait_seconds" in arguments:
            arguments["wait"] = arguments.pop("wait_seconds")
            arguments["on_waiting"] = lambda waiting: self.positions.append(waiting.position)
        result = await getattr(self, step["do"], self.other)(step["do"], **arguments)
        assert not self.router.script, f"requests that did not leave: {self.router.script}"
        for member, value in named(step.get("expect", {}), "expects").items():
            found = round(result[member], 6) if isinstance(result[member], float) else result[member]
            assert found == value, f"{member} is {found!r}, not {value!r}"
        if "positions" in step:
            assert self.positions == step["positions"]
        if "waits_ms" in step:
            assert self.clock.waits_ms == step["waits_ms"]
        if "breaker" in step:
            assert self.client.breaker.state == step["breaker"]
        if "pending_releases" in step:
            assert self.client.pending_releases == step["pending_releases"]

    async def allocate(self, _, **arguments):
        return dataclasses.asdict(await self.client.allocate(**arguments))

    async def release(self, _, **arguments):
        return {"outcome": "done" if await self.client.release(**arguments) else "pending"}

    async def health(self, _):
        return {"outcome": "ok" if await self.client.health() else "unavailable"}

    async def call_begin(self, _, call_sid, **arguments):
        self.contexts[call_sid] = self.client.call(call_sid, **arguments)
        return dataclasses.asdict((await self.contexts[call_sid].__aenter__()).allocation)

    async def call_end(self, _, call_sid):
        before = len(self.router.script)
        await self.contexts.pop(call_sid).__aexit__(None, None, None)
        if before == len(self.router.script) == 0 and self.client.pending_releases == 0:
            return {"outcome": "none"}
        return {"outcome": "pending" if self.client.pending_releases else "done"}

    async def advance(self, _, ms):
        until = self.clock.at + ms / 1000
        while True:
            due = self.client.background.next_due()
            if due is None or due > until + 1e-6:
                break
            self.clock.at = max(self.clock.at, due)
            await self.client.background.run_until(self.clock.at)
        self.clock.at = max(self.clock.at, until)

    async def other(self, name, **arguments):
        try:
            result = await getattr(self.client, name)(**arguments)
        except RouterError as error:
            return {"outcome": error.outcome}
        members = dataclasses.asdict(result) if dataclasses.is_dataclass(result) else {}
        lists = {member: list(value) for member, value in members.items() if isinstance(value, tuple)}
        return {"outcome": "ok", **members, **lists}


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["name"])
def test_row(row):
    async def run():
        runner = Runner(row)
        for number, step in enumerate(row["steps"]):
            try:
                await runner.step(step)
            except AssertionError as error:
                raise AssertionError(f"step {number}, {json.dumps(step)}: {error}") from error

    asyncio.run(run())


@pytest.mark.parametrize("gate", TABLE["gates"], ids=lambda gate: f"{gate['decision']} {gate['environment']}")
def test_gate(gate):
    assert Settings.from_env(environment_of(gate)).rollout.decide(gate["merchant_id"]) == gate["decision"]


def test_a_thousand_merchants_get_the_decision_of_the_formula_and_of_the_table():
    table = TABLE["buckets"]
    names = [f"{table['prefix']}{number}" for number in range(table["merchants"])]
    formula = [int(hashlib.md5(name.encode()).hexdigest(), 16) % 100 for name in names]
    assert "".join(f"{bucket:02d}" for bucket in formula) == table["buckets"]
    assert [bucket_of(name) for name in names] == formula
    for percentage, passed in zip(table["percentages"], table["passed"]):
        rollout = Rollout(enabled=True, percentage=percentage)
        decisions = [rollout.decide(name) == "yes" for name in names]
        assert decisions == [bucket < percentage for bucket in formula]
        assert sum(decisions) == passed
