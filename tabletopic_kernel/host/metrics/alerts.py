"""Alert rules for Prometheus, declared once: ``deploy/alerts.yml`` and the docs are generated from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from tabletopic_kernel.host.metrics.declared import METRICS


@dataclass(frozen=True)
class Alert:
    """One rule; it fires once ``expr`` holds for ``holds_for``. ``means`` and ``todo`` are for people."""

    name: str
    expr: str
    holds_for: str
    severity: Literal["critical", "warning", "info"]
    means: str
    todo: str

    @property
    def metrics(self) -> tuple[str, ...]:
        """The declared metrics that the expression reads."""
        series = set(re.findall(r"\btabletopic_\w+", self.expr))
        return tuple(
            metric.name
            for metric in METRICS
            if series & {metric.sample, *(f"{metric.name}_{part}" for part in ("bucket", "sum", "count"))}
        )


def _began_or_rises(series: str, window: str) -> str:
    """An expression for a counter that is absent until it counts: ``increase`` misses its first value."""
    return f"increase({series}[{window}]) > 0 or ({series} unless {series} offset {window}) > 0"


def _rose(metric: str, labels: str) -> str:
    """An expression for a count in the ledger that rose within 15 minutes.

    A host that takes over a topic shows the whole count from its first scrape on, so it is compared with what
    any host showed in the day before.
    """
    now = f"max by ({labels}) ({metric})"
    before = f"max by ({labels}) (max_over_time({metric}[1d] offset 15m))"
    return f"{now} - ({before} or {now} * 0) > 0"


ALERTS: Final = (
    Alert(
        "TabletopicNoHost",
        "absent(tabletopic_in_group == 1)",
        "2m",
        "critical",
        "No scraped host is in the group: no table topic progresses",
        "Start a host, or check `/readyz` and the log of a running one",
    ),
    Alert(
        "TabletopicHostDown",
        "up == 0 and on (job, instance) last_over_time(tabletopic_topics[1d])",
        "2m",
        "warning",
        "A host scraped within the last day does not respond; others have taken over its topics",
        "Restart it, or remove it from the targets; its log says how it ended. It may also be frozen",
    ),
    Alert(
        "TabletopicHostNotInGroup",
        "tabletopic_in_group == 0",
        "5m",
        "warning",
        "A host is running but gets no topics; others have taken them over",
        "Its `/readyz` says why: the broker does not respond, or does not admit it",
    ),
    Alert(
        "TabletopicHostStuck",
        "tabletopic_poll_age_seconds > 150",
        "1m",
        "critical",
        "The host's loop hangs; the group has reassigned its topics",
        "Restart it: `/healthz` fails too, so a supervisor that polls it does so automatically",
    ),
    Alert(
        "TabletopicServerDown",
        "tabletopic_server_up == 0",
        "2m",
        "critical",
        "The broker, registry or a catalog does not respond to this host: topics wait, nothing is lost",
        "`/readyz` has the server's error, `tabletopic doctor` the remedy",
    ),
    Alert(
        "TabletopicLagUnknown",
        "tabletopic_end_offsets_age_seconds > 60",
        "2m",
        "warning",
        "The broker has not reported end offsets: the lag is computed from old ones",
        "As for TabletopicServerDown",
    ),
    Alert(
        "TabletopicTopicFailed",
        'tabletopic_state{state="failed"} == 1',
        "1m",
        "critical",
        "A topic stopped, and you must act",
        "`tabletopic status TOPIC` has the reason; fix it, then `tabletopic resume TOPIC`",
    ),
    Alert(
        "TabletopicTopicWaiting",
        'tabletopic_state{state="waiting"} == 1',
        "5m",
        "warning",
        "A topic waits for a server, or its batches keep failing; it retries automatically",
        "`tabletopic status TOPIC` and `tabletopic logs TOPIC` name the server or the error",
    ),
    Alert(
        "TabletopicLag",
        "tabletopic_commit_lag_seconds > clamp_min(3 * tabletopic_commit_interval_seconds, 60)"
        ' unless on (job, instance, topic) tabletopic_state{state="paused"} == 1',
        "5m",
        "warning",
        "A table is more than three commit intervals, and a minute, behind its topic",
        "`tabletopic status TOPIC` has the reason; more cores, another host or longer intervals help",
    ),
    Alert(
        "TabletopicOpenTransaction",
        "tabletopic_open_transaction_seconds > 900",
        "1m",
        "warning",
        "Records wait behind a transaction that nobody ends, for longer than brokers allow by default",
        "`tabletopic status TOPIC` names its partition and offset, and the command that aborts it",
    ),
    Alert(
        "TabletopicRecordsRefused",
        f"sum by (job, topic) ({_rose('tabletopic_refused_records_total', 'job, topic, reason')})"
        " or sum by (job, topic) (delta(tabletopic_dead_letters[15m]) > 0)",
        "0m",
        "warning",
        "Records could not become rows; tabletopic_refused_records_total has the reasons",
        "Check the dead-letter table, fix the producer or the settings, then `tabletopic replay TOPIC`",
    ),
    Alert(
        "TabletopicRecordsLost",
        _rose("tabletopic_lost_records_total", "job, topic"),
        "0m",
        "critical",
        "Retention deleted records before they were read, and `on_gap` let the topic continue",
        "Extend retention, or find out what delayed the topic; `tabletopic events TOPIC` has the offsets",
    ),
    Alert(
        "TabletopicCommitsFail",
        'increase(tabletopic_failures_total{kind="commit"}[15m]) > 3',
        "0m",
        "warning",
        "Commits fail; staged files are kept, and the commits are retried",
        "`tabletopic events TOPIC` has the catalog's error",
    ),
    Alert(
        "TabletopicCommitsSlow",
        "histogram_quantile(0.95, sum by (job, instance, le) "
        "(rate(tabletopic_commit_duration_seconds_bucket[15m]))) > 30",
        "15m",
        "warning",
        "One commit in twenty takes longer than 30 s",
        "Check the catalog's latency, and the table's snapshots: `tabletopic health TOPIC`",
    ),
    Alert(
        "TabletopicOwnerChanges",
        "changes(tabletopic_epoch[15m]) > 5",
        "0m",
        "warning",
        "A topic's owner keeps changing: its worker dies, or hosts come and go",
        "`tabletopic events TOPIC` shows the owners and why they ended; check memory",
    ),
    Alert(
        "TabletopicSchemaRefused",
        _began_or_rises('tabletopic_failures_total{kind="schema"}', "15m"),
        "0m",
        "warning",
        "A schema does not fit its table",
        "`tabletopic events TOPIC` names the columns; `on_incompatible` decides what happens to its records",
    ),
    Alert(
        "TabletopicMaintenanceFails",
        _began_or_rises('tabletopic_failures_total{kind="maintenance"}', "6h"),
        "0m",
        "warning",
        "A compaction, an expiry or a removal of orphans ended early; the rows are not affected",
        "`tabletopic events TOPIC` has the reason; it is retried when next due",
    ),
    Alert(
        "TabletopicEventsDropped",
        "increase(tabletopic_dropped_events_total[15m]) > 0",
        "0m",
        "info",
        "Events did not reach the control topic: status, dashboard and audits miss them",
        "The broker was unavailable, or the host may not write to the control topic: `tabletopic doctor`",
    ),
)


def alerts_of(metric: str) -> tuple[str, ...]:
    return tuple(alert.name for alert in ALERTS if metric in alert.metrics)
