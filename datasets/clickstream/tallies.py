"""Exact counts of what a clickstream has produced so far.

Only ints and texts, so that ``dataclasses.asdict`` returns valid JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tabletopic_kernel._datasets.clickstream.shop import DEVICE_TYPES, STEPS


@dataclass
class DeviceTally:
    """Events and distinct users of one device type."""

    events: int = 0
    users: int = 0


@dataclass
class Tallies:
    """Counts over events; money in cents, hours as ``2026-01-05T06:00:00Z``."""

    events: int = 0
    views_by_url: dict[str, int] = field(default_factory=dict)
    sessions_by_step: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STEPS, 0))
    revenue_cents_by_hour: dict[str, int] = field(default_factory=dict)
    devices: dict[str, DeviceTally] = field(
        default_factory=lambda: {kind: DeviceTally() for kind in DEVICE_TYPES}
    )
    events_by_version: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Tallies:
        """The tallies from a saved ``dataclasses.asdict``."""
        devices = {kind: DeviceTally(**counts) for kind, counts in saved["devices"].items()}
        return cls(**{**saved, "devices": devices})

    def repeated(self, times: int, rest: Tallies) -> Tallies:
        """The tallies of ``times`` passes over these events and then ``rest``, a first part of them.

        Distinct sessions and users do not grow with repetition: they are those of one pass.
        """
        if times == 0:
            return rest
        return Tallies(
            events=self.events * times + rest.events,
            views_by_url=_added(self.views_by_url, times, rest.views_by_url),
            sessions_by_step=dict(self.sessions_by_step),
            revenue_cents_by_hour=_added(self.revenue_cents_by_hour, times, rest.revenue_cents_by_hour),
            devices={
                kind: DeviceTally(one.events * times + rest.devices[kind].events, one.users)
                for kind, one in self.devices.items()
            },
            events_by_version=_added(self.events_by_version, times, rest.events_by_version),
        )


def _added(one_pass: dict[str, int], times: int, rest: dict[str, int]) -> dict[str, int]:
    return {key: count * times + rest.get(key, 0) for key, count in one_pass.items()}
