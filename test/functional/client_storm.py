"""client_storm.py URL CALLS TASKS PODS - a process of agents and callers: PODS agents, TASKS tasks that place CALLS calls.

Prints "ready" when all agents are known, a line for every tenth of the calls, and "done N" at its end. The first number of
its calls is FIRST in the environment.
"""
import asyncio
import os
import random
import sys

import smartrouter


async def main(url, calls, tasks, pods):
    settings = smartrouter.Settings(
        base_url=url, timeout_ms=30000, rollout=smartrouter.Rollout(enabled=True, percentage=100), heartbeat_interval=1.0
    )
    first = int(os.environ.get("FIRST", "0"))
    numbers = iter(range(first, first + calls))
    served = 0
    async with smartrouter.Client(settings) as client:
        agents = {
            f"agent-{i}": smartrouter.Agent(client, pod_name=f"agent-{i}", address=f"127.0.0.1:{9000 + i}")
            for i in range(pods)
        }
        for agent in agents.values():
            await agent.start()
        for agent in agents.values():
            await agent.wait_known()
        print("ready", flush=True)

        async def place():
            nonlocal served
            for number in numbers:
                async with client.call(f"CA{number}", f"merchant-{number}") as call:
                    assert call.has_pod, call.allocation
                    async with agents[call.pod_name].call(call.call_sid):
                        await asyncio.sleep(random.uniform(0, 0.2))
                served += 1
                if served % max(1, calls // 10) == 0:
                    print(f"served {served}", flush=True)

        await asyncio.gather(*(place() for _ in range(tasks)))
        for agent in agents.values():
            assert await agent.shutdown()
    print(f"done {served}", flush=True)


asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:5])))
