"""What the client knows of telephony providers: the default URL of a call, and the words for its end."""

from __future__ import annotations

from typing import Optional

#: Of a status callback, in whatever case: the call has ended.
TERMINAL = ("completed", "busy", "failed", "no-answer", "canceled", "cancelled", "cancel", "timeout")


def is_terminal(status: str) -> bool:
    return status.strip().lower() in TERMINAL


def default_url(base_url: str, provider: Optional[str], flow: Optional[str], template: Optional[str]) -> str:
    """The URL that leads to any agent, without the router; empty if there is no base URL."""
    if not base_url:
        return ""
    provider = provider or "twilio"
    template = template or ("template" if provider == "exotel" else "order-confirmation")
    suffix = "/v2" if (flow or "v2") == "v2" else ""
    return f"{base_url}/agent/voice/breeze-buddy/{provider}/callback/{template}{suffix}"
