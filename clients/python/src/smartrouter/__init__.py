"""smartrouter: what a voice agent uses to talk to Smart Router. docs/CLIENTS.md and the package's README have the rest."""

from .agent import Agent, AgentCall
from .breaker import Breaker
from .client import Call, Client
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
    "bucket_of",
    "is_terminal",
]
