"""The media messages of the three providers, as a caller's side and an agent's side write and read them.

A `Dialect` makes the texts of the caller's stream and understands what is played to it. The names and shapes are those of
the providers' documents, written down a second time: the router has its own.
"""

import base64
import json


class Dialect:
    name = ""
    has_connected = True
    sample_bytes = 1

    def connected(self):
        return json.dumps({"event": "connected", "protocol": "Call", "version": "1.0.0"})

    def start(self, call_sid, stream_id):
        raise NotImplementedError

    def media(self, stream_id, payload, number):
        raise NotImplementedError

    def stop(self, call_sid, stream_id):
        raise NotImplementedError

    def mark_back(self, stream_id, name):
        raise NotImplementedError

    def play(self, stream_id, payload):
        """What an agent sends."""
        raise NotImplementedError

    def heard(self, text):
        """("audio", bytes), ("mark", name), ("clear", None) or ("other", message)."""
        raise NotImplementedError

    def first_messages(self, call_sid, stream_id):
        return ([self.connected()] if self.has_connected else []) + [self.start(call_sid, stream_id)]


class Twilio(Dialect):
    name = "twilio"

    def start(self, call_sid, stream_id):
        details = {"streamSid": stream_id, "accountSid": "AC1", "callSid": call_sid, "tracks": ["inbound"]}
        details["mediaFormat"] = {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}
        details["customParameters"] = {"name": "J\u00f6rg", "note": "one \"two\" three"}
        return json.dumps({"event": "start", "sequenceNumber": "1", "start": details, "streamSid": stream_id})

    def media(self, stream_id, payload, number):
        media = {"track": "inbound", "chunk": str(number), "timestamp": str(20 * number)}
        media["payload"] = base64.b64encode(payload).decode()
        return json.dumps({"event": "media", "sequenceNumber": str(number + 1), "media": media, "streamSid": stream_id})

    def stop(self, call_sid, stream_id):
        return json.dumps({"event": "stop", "sequenceNumber": "9", "stop": {"accountSid": "AC1", "callSid": call_sid}, "streamSid": stream_id})

    def mark_back(self, stream_id, name):
        return json.dumps({"event": "mark", "sequenceNumber": "4", "streamSid": stream_id, "mark": {"name": name}})

    def play(self, stream_id, payload):
        return json.dumps({"event": "media", "streamSid": stream_id, "media": {"payload": base64.b64encode(payload).decode()}})

    def heard(self, text):
        message = json.loads(text)
        if message["event"] == "media":
            return "audio", base64.b64decode(message["media"]["payload"], validate=True)
        if message["event"] == "mark":
            return "mark", message["mark"]["name"]
        return ("clear", None) if message["event"] == "clear" else ("other", message)


class Plivo(Dialect):
    name = "plivo"
    has_connected = False

    def start(self, call_sid, stream_id):
        details = {"callId": call_sid, "streamId": stream_id, "accountId": "MA1", "tracks": ["inbound"]}
        details["mediaFormat"] = {"encoding": "audio/x-mulaw", "sampleRate": 8000}
        return json.dumps({"sequenceNumber": 0, "event": "start", "start": details, "extra_headers": "{}"})

    def media(self, stream_id, payload, number):
        media = {"track": "inbound", "timestamp": str(20 * number), "chunk": number, "payload": base64.b64encode(payload).decode()}
        return json.dumps({"sequenceNumber": number, "streamId": stream_id, "event": "media", "media": media, "extra_headers": "{}"})

    def stop(self, call_sid, stream_id):
        return None  # the socket is closed

    def mark_back(self, stream_id, name):
        return json.dumps({"event": "playedStream", "streamId": stream_id, "name": name})

    def play(self, stream_id, payload):
        media = {"contentType": "audio/x-mulaw", "sampleRate": 8000, "payload": base64.b64encode(payload).decode()}
        return json.dumps({"event": "playAudio", "media": media})

    def heard(self, text):
        message = json.loads(text)
        if message["event"] == "playAudio":
            assert message["media"]["contentType"] == "audio/x-mulaw"
            return "audio", base64.b64decode(message["media"]["payload"], validate=True)
        if message["event"] == "checkpoint":
            return "mark", message["name"]
        return ("clear", None) if message["event"] == "clearAudio" else ("other", message)


class Exotel(Dialect):
    name = "exotel"
    sample_bytes = 2

    def start(self, call_sid, stream_id):
        details = {"stream_sid": stream_id, "call_sid": call_sid, "account_sid": "EX1", "from": "+91", "to": "+92"}
        details["media_format"] = {"encoding": "base64", "sample_rate": "8000", "bit_rate": "128kbps"}
        return json.dumps({"event": "start", "sequence_number": 1, "stream_sid": stream_id, "start": details})

    def media(self, stream_id, payload, number):
        media = {"chunk": number, "timestamp": str(20 * number), "payload": base64.b64encode(payload).decode()}
        return json.dumps({"event": "media", "sequence_number": number, "stream_sid": stream_id, "media": media})

    def stop(self, call_sid, stream_id):
        return json.dumps({"event": "stop", "sequence_number": 9, "stream_sid": stream_id, "stop": {"call_sid": call_sid, "reason": "callended"}})

    def mark_back(self, stream_id, name):
        return json.dumps({"event": "mark", "sequence_number": 4, "stream_sid": stream_id, "mark": {"name": name}})

    def play(self, stream_id, payload):
        return json.dumps({"event": "media", "stream_sid": stream_id, "media": {"payload": base64.b64encode(payload).decode()}})

    def heard(self, text):
        message = json.loads(text)
        if message["event"] == "media":
            payload = base64.b64decode(message["media"]["payload"], validate=True)
            return "audio", payload
        if message["event"] == "mark":
            return "mark", message["mark"]["name"]
        return ("clear", None) if message["event"] == "clear" else ("other", message)


DIALECTS = {dialect.name: dialect for dialect in (Twilio(), Plivo(), Exotel())}
