"""demo_calls.py - the callers of the demo: each calls a number at the provider, talks to an agent, and hangs up.

A caller says something every 20 ms and checks that it comes back. What else is heard is hold audio: the caller waits for
an agent, or for another one. If the stream of the call ends, the provider asks the router how the call goes on.
"""
import asyncio
import itertools
import os
import struct
import time

from demo_provider import Answer, Busy, Media, Refused, Stream

FRAME_S = 0.02
FRAME = os.urandom(152)  # with its number: 20 ms of audio
ECHO_S = 5  # for the last frames of a call
COME_BACK_S = 20  # for a call whose stream broke
TRY_S = 0.1


class Call:
    """One call: what the table shows of it."""

    def __init__(self, number):
        self.sid = f"CA{number}"
        self.pod = None
        self.is_talking = False  # with an agent
        self.is_waiting = False  # it hears hold audio
        self.hangs_up = False
        self.breaks = self.told_breaks = 0  # of its stream; those that the caller has got over
        self.sent = self.answered = 0  # frames; `answered` is the number behind the last one that came back
        self.began = self.heard_at = time.monotonic()  # heard_at: the last frame of an agent
        self.is_disturbed = False  # frames may be missing since then: nobody listened
        self.length = 0.7 + number % 4 * 0.2  # of the usual length: so that calls end one after the other


class Callers:
    """`wanted` callers at once. While `is_held`, nobody hangs up."""

    def __init__(self, client, slots, seconds, tell):
        self.client, self.slots, self.seconds, self.tell = client, slots, seconds, tell
        self.wanted, self.is_held, self.is_over = 0, False, False
        self.numbers = itertools.count(1)
        self.calls = {}
        self.placed = self.completed = self.lost_calls = self.waited = self.rescued = self.resumed = 0
        self.sent = self.echoed = self.lost = self.cut = 0

    def talking(self):
        return [call for call in self.calls.values() if call.is_talking]

    def waiting(self):
        return [call for call in self.calls.values() if call.is_waiting]

    async def run(self):
        await asyncio.gather(*(self._caller(slot) for slot in range(self.slots)))

    async def _caller(self, slot):
        while not self.is_over:
            if slot < self.wanted:
                await self._place(Call(next(self.numbers)))
            await asyncio.sleep(self.seconds / 20)

    async def _place(self, call):
        self.placed += 1
        self.calls[call.sid] = call
        try:
            await self._talk_until_over(call)
            self.completed += 1
        except (OSError, Refused, Busy) as error:
            self.lost_calls += 1
            self.tell("red", f"{call.sid} is lost: {error}")
        finally:
            del self.calls[call.sid]
        await self._tell_provider_s_status(call)

    async def _talk_until_over(self, call):
        path = "/api/v1/twilio/allocate"
        while True:
            answer, stream = await self._open(call, path)
            try:
                if await self._talk(call, stream):
                    return
            finally:
                call.is_talking = call.is_waiting = False
                stream.close()
            call.breaks += 1
            call.is_disturbed = True
            path = answer.after or path
            self.tell("yellow", f"{call.sid}: its stream to {call.pod or 'the router'} broke; the provider asks what to do")

    async def _open(self, call, path):
        """Asks until there is a stream. The provider of a call that broke asks again for some time."""
        began = time.monotonic()
        while True:
            try:
                answer = Answer(await self.client.webhook(path, CallSid=call.sid, CallStatus="in-progress"))
                if answer.stream:
                    return answer, await Stream.open(answer.stream)
                if not answer.redirect:
                    raise Busy("the caller hears the busy message")
                path = answer.redirect
                await asyncio.sleep(answer.pause_s)
            except (OSError, Refused):
                if call.breaks == 0 or time.monotonic() - began > COME_BACK_S:
                    raise
                await asyncio.sleep(TRY_S)

    async def _pod_of(self, call):
        try:
            return (await self.client.ask("GET", f"/api/v1/call/{call.sid}"))[1]
        except (OSError, Refused):
            return {}

    async def _talk(self, call, stream):
        """True: the call ended as it should. False: the stream broke."""
        media = Media(stream, call.sid, lambda audio: self._hear(call, audio))
        media.begin()
        listener = asyncio.create_task(media.listen())
        try:
            is_whole = await self._speak(call, media, listener)
            if is_whole:
                media.end()
                self.lost += call.sent - call.answered
            return is_whole
        finally:
            listener.cancel()

    def _hear(self, call, audio):
        """An echo, or hold audio."""
        if audio[8:] != FRAME:
            if not call.is_waiting:
                call.is_waiting, call.is_talking, call.is_disturbed = True, False, True
                asyncio.ensure_future(self._tell_wait(call))
            return
        (number,) = struct.unpack("!Q", audio[:8])
        gap = number - call.answered
        if gap > 0 and call.is_disturbed:
            self.cut += gap
        else:
            self.lost += abs(gap)
        if not call.is_talking and not call.hangs_up:
            asyncio.ensure_future(self._tell_agent(call, time.monotonic() - call.heard_at, call.is_waiting))
        self.waited += call.is_waiting and call.pod is None
        call.is_talking, call.is_waiting, call.is_disturbed = not call.hangs_up, False, False
        call.answered, call.heard_at = number + 1, time.monotonic()
        self.echoed += 1

    async def _tell_wait(self, call):
        state = await self._pod_of(call)
        if state.get("state") != "waiting":
            return
        why = f"{call.pod} broke, and no other agent is free" if call.pod else "no agent is free"
        self.tell("yellow", f"{call.sid} waits, at place {state['position']} of the line, and hears a soft tone: {why}")

    async def _tell_agent(self, call, silence_s, has_waited):
        """It talks to an agent, for the first time or again."""
        state, before = await self._pod_of(call), call.pod
        call.pod = state.get("pod_name") or before
        if before is None:
            after = f" after {silence_s:.1f} s in line" if has_waited else ""
            self.tell("green" if after else "plain", f"{call.sid} gets {call.pod} ({state.get('source_pool', '?')}){after}")
            return
        is_rescued = call.breaks == call.told_breaks
        if is_rescued and call.pod == before:
            return  # what the old agent said last was still on its way
        call.told_breaks = call.breaks
        self.rescued += is_rescued
        self.resumed += not is_rescued
        how = "with the same agent" if call.pod == before else f"with {call.pod}"
        kept = "; its stream never broke" if is_rescued else ""
        self.tell("green", f"{call.sid} goes on {how}, {1000 * silence_s:.0f} ms after the last word before{kept}")

    async def _speak(self, call, media, listener):
        due = time.monotonic()
        seconds = self.seconds * call.length
        while self._goes_on(call, seconds):
            if listener.done():
                return False
            media.speak(call.sent, struct.pack("!Q", call.sent) + FRAME)
            call.sent += 1
            self.sent += 1
            due += FRAME_S
            await asyncio.sleep(max(0, due - time.monotonic()))
        call.is_talking, call.hangs_up = False, True  # whoever is held from now on
        end = time.monotonic() + ECHO_S
        while call.answered < call.sent and time.monotonic() < end and not listener.done():
            await asyncio.sleep(FRAME_S)
        return not listener.done()

    def _goes_on(self, call, seconds):
        if call.hangs_up:
            return False
        is_young = time.monotonic() - call.began < seconds and not self.is_over
        return self.is_held or is_young or not call.is_talking

    async def _tell_provider_s_status(self, call):
        """The call is over: the provider says so."""
        for _ in range(int(COME_BACK_S / TRY_S)):
            try:
                await self.client.webhook("/api/v1/twilio/status", CallSid=call.sid, CallStatus="completed")
                break
            except Refused:
                break
            except OSError:
                await asyncio.sleep(TRY_S)
        self.tell("dim", f"{call.sid} has ended")
