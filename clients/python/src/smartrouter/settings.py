"""The settings of a client: the variables of a voice agent, read and checked in one place."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Mapping, Optional, Tuple

from .rollout import Rollout

LEASE_SECONDS = 4 * 3600  # CALL_MAX_DURATION of the router: no lease is longer
PENDING_RELEASES_MAX = 10_000
CONNECTIONS_MAX = 100


class SettingsError(ValueError):
    """A variable has a value that makes no sense. The message names it."""


@dataclass(frozen=True)
class Settings:
    """Everything a client and an agent need to know. `Settings.from_env()` reads the variables."""

    base_url: str = "http://smart-router:8080"
    api_key: str = field(default="", repr=False)
    timeout_ms: int = 3000  #: of each try
    retry_attempts: int = 3
    enable_fallback: bool = True
    failure_threshold: int = 5  #: failures in a row that open the breaker
    recovery_timeout: float = 30.0  #: seconds until it is half open
    half_open_max_calls: int = 3  #: successes that close it
    pod_name: str = ""
    pod_ip: str = ""
    voice_agent_base_url: str = ""  #: of the default URL: fallback, and calls that bypass the router
    heartbeat_interval: float = 30.0
    heartbeat_ttl: float = 90.0
    shutdown_timeout: float = 300.0
    rollout: Rollout = Rollout()
    twilio_direct: bool = False  #: Twilio's webhook is the router's own
    plivo_direct: bool = False
    lease_seconds: float = LEASE_SECONDS  #: how long a release is worth repeating

    def __post_init__(self) -> None:
        if not self.base_url.startswith(("http://", "https://")):
            raise SettingsError(f"SMART_ROUTER_BASE_URL: {self.base_url!r} does not begin with http:// or https://")
        if self.voice_agent_base_url and not self.voice_agent_base_url.startswith(("ws://", "wss://")):
            raise SettingsError(f"VOICE_AGENT_BASE_URL: {self.voice_agent_base_url!r} does not begin with ws:// or wss://")
        if self.heartbeat_ttl < self.heartbeat_interval:
            raise SettingsError("VOICE_AGENT_HEARTBEAT_TTL is shorter than VOICE_AGENT_HEARTBEAT_INTERVAL")

    @property
    def timeout(self) -> float:
        """Of each try, in seconds."""
        return self.timeout_ms / 1000

    def is_direct(self, provider: str) -> bool:
        """Whether the provider's webhook should be the router's own, `/api/v1/{provider}/allocate`."""
        return {"twilio": self.twilio_direct, "plivo": self.plivo_direct}.get(provider.lower(), False)

    @classmethod
    def from_env(cls, env: Optional[Mapping[str, str]] = None) -> Settings:
        """Reads the variables. A bad one raises SettingsError, an empty one counts as unset."""
        read = _Reader(os.environ if env is None else env)
        return cls(
            base_url=read.text("SMART_ROUTER_BASE_URL", cls.base_url).rstrip("/"),
            api_key=read.text("SMART_ROUTER_API_KEY", ""),
            timeout_ms=read.integer("SMART_ROUTER_TIMEOUT_MS", cls.timeout_ms, 1, 60_000),
            retry_attempts=read.integer("SMART_ROUTER_RETRY_ATTEMPTS", cls.retry_attempts, 1, 10),
            enable_fallback=read.boolean("SMART_ROUTER_ENABLE_FALLBACK", True),
            failure_threshold=read.integer("SMART_ROUTER_CB_FAILURE_THRESHOLD", cls.failure_threshold, 1, 1000),
            recovery_timeout=read.seconds("SMART_ROUTER_CB_RECOVERY_TIMEOUT", cls.recovery_timeout),
            half_open_max_calls=read.integer("SMART_ROUTER_CB_HALF_OPEN_MAX_CALLS", cls.half_open_max_calls, 1, 1000),
            pod_name=read.text("POD_NAME", ""),
            pod_ip=read.text("POD_IP", ""),
            voice_agent_base_url=read.text("VOICE_AGENT_BASE_URL", "").rstrip("/"),
            heartbeat_interval=read.seconds("VOICE_AGENT_HEARTBEAT_INTERVAL", cls.heartbeat_interval),
            heartbeat_ttl=read.seconds("VOICE_AGENT_HEARTBEAT_TTL", cls.heartbeat_ttl),
            shutdown_timeout=read.seconds("VOICE_AGENT_SHUTDOWN_TIMEOUT", cls.shutdown_timeout),
            rollout=Rollout(
                enabled=read.boolean("ENABLE_VOICE_AGENT_POD_ISOLATION", False),
                percentage=read.integer("SMART_ROUTER_PERCENTAGE", 0, 0, 100),
                merchants=read.names("SMART_ROUTER_MERCHANTS"),
            ),
            twilio_direct=read.boolean("SMART_ROUTER_ENABLE_TWILIO_DIRECT", False),
            plivo_direct=read.boolean("SMART_ROUTER_ENABLE_PLIVO_DIRECT", False),
        )


class _Reader:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env

    def text(self, name: str, default: str) -> str:
        return self._env.get(name, "").strip() or default

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        text = self.text(name, str(default))
        try:
            value = int(text)
        except ValueError:
            raise SettingsError(f"{name}: {text!r} is not a whole number") from None
        if not low <= value <= high:
            raise SettingsError(f"{name}: {value} is not from {low} to {high}")
        return value

    def seconds(self, name: str, default: float) -> float:
        text = self.text(name, str(default))
        try:
            value = float(text)
        except ValueError:
            raise SettingsError(f"{name}: {text!r} is not a number of seconds") from None
        if not 0 < value <= 7 * 86400:
            raise SettingsError(f"{name}: {text} is not above 0 and at most a week of seconds")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "1", "yes", "on", "false", "0", "no", "off"):
            raise SettingsError(f"{name}: {text!r} is neither true nor false")
        return text in ("true", "1", "yes", "on")

    def names(self, name: str) -> Tuple[str, ...]:
        return tuple(part.strip() for part in self.text(name, "").split(",") if part.strip())
