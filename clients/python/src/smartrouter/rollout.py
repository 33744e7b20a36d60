"""Which merchants' calls go through the router: the kill switch, a percentage, a list.

The decision depends on nothing but the merchant and the flags: the same merchant always gets the same one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Tuple

#: What `Rollout.decide` returns.
YES = "yes"
DISABLED = "disabled"
PERCENTAGE = "percentage"
MERCHANTS = "merchants"


def bucket_of(merchant_id: str) -> int:
    """md5(merchant_id) mod 100: the whole digest, read as one number."""
    digest = hashlib.md5(merchant_id.encode())  # not for secrecy: it spreads merchants evenly
    return int(digest.hexdigest(), 16) % 100


@dataclass(frozen=True)
class Rollout:
    """The flags. They may change while the program runs: give the client a new one (`client.rollout = …`)."""

    enabled: bool = False  #: ENABLE_VOICE_AGENT_POD_ISOLATION, the kill switch
    percentage: int = 0  #: SMART_ROUTER_PERCENTAGE
    merchants: Tuple[str, ...] = ()  #: SMART_ROUTER_MERCHANTS; empty: all

    def decide(self, merchant_id: str) -> str:
        """`yes`, or why not: `disabled`, `percentage`, `merchants`."""
        if not self.enabled:
            return DISABLED
        # bucket_of is below 100, and never below 0: 100 lets everybody through, 0 nobody.
        if bucket_of(merchant_id) >= self.percentage:
            return PERCENTAGE
        if self.merchants and merchant_id not in self.merchants:
            return MERCHANTS
        return YES
