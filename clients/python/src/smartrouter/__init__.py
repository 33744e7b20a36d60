"""smartrouter: what a voice agent uses to talk to Smart Router. docs/CLIENTS.md and the package's README have the rest."""

from .agent import Agent, AgentCall, close_ends_call
from .breaker import Breaker
from .calls import Call
from .client import Client
from .hooks import Hooks, ReleaseEvent, RequestEvent
from .providers import is_terminal
from .results import (
    Allocation,
    DrainedResult,
    DrainResult,
    HeartbeatResult,
    Registration,
    Renewal,
    RouterError,
    RouterRefused,
    RouterUnavailable,
    Waiting,
)
from .rollout import Rollout, bucket_of
from .settings import Settings, SettingsError
from .sync import SyncClient
from .version import VERSION

__version__ = VERSION

__all__ = [
    "Agent",
    "AgentCall",
    "Allocation",
    "Breaker",
    "Call",
    "Client",
    "DrainResult",
    "DrainedResult",
    "HeartbeatResult",
    "Hooks",
    "Registration",
    "ReleaseEvent",
    "Renewal",
    "RequestEvent",
    "Rollout",
    "RouterError",
    "RouterRefused",
    "RouterUnavailable",
    "Settings",
    "SettingsError",
    "SyncClient",
    "Waiting",
    "bucket_of",
    "close_ends_call",
    "is_terminal",
]
