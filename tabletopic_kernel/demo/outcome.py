"""What the demo found, as one record: the summary that ``--json`` prints."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from tabletopic_kernel.demo.history import Commit, SchemaStep
from tabletopic_kernel.demo.proof import Answer, Check, Partition


@dataclass
class Story:
    """What happened. Times in seconds since the stream began; None for what did not happen."""

    first_commit_s: float | None = None
    sent_s: float | None = None
    killed_s: float | None = None
    killed_after_events: int | None = None
    takeover_s: float | None = None
    takeover_epoch: int | None = None
    caught_up_s: float | None = None


@dataclass
class Outcome:
    """Filled scene by scene. ``seconds`` has the time of every scene.

    ``peak_memory_bytes`` is of all processes together; ``peak_rss_bytes`` counts a page that several
    processes share for each of them.
    """

    events: int
    sent: int = 0
    story: Story = field(default_factory=Story)
    commits: list[Commit] = field(default_factory=list)
    schemas: list[SchemaStep] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    partitions: list[Partition] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    peak_memory_bytes: int = 0
    peak_rss_bytes: int = 0
    ended_by_force: list[str] = field(default_factory=list)

    @property
    def comparisons(self) -> list[Answer | Check]:
        """All that must agree."""
        return [*self.answers, *self.checks]

    @property
    def ok(self) -> bool:
        """Whether everything was compared and agrees; nothing compared is not good."""
        return bool(self.answers and self.checks) and all(one.ok for one in self.comparisons)

    @property
    def total_s(self) -> float:
        """Over all scenes."""
        return sum(self.seconds.values())

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary that says of every comparison whether it holds."""
        plain = asdict(self)
        for name in ("answers", "partitions", "checks"):
            for made, one in zip(plain[name], getattr(self, name), strict=True):
                made["ok"] = one.ok
        for made, commit in zip(plain["commits"], self.commits, strict=True):
            made["next_offsets_sum"] = commit.next_offsets_sum
        return {"ok": self.ok, **plain, "total_s": round(self.total_s, 2)}
