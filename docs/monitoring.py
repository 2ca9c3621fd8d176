"""Derived from the declared metrics and alerts: tables, Prometheus' rules, Grafana's dashboard."""

from __future__ import annotations

import json
from typing import Any

import yaml

from tabletopic_kernel.host.metrics.alerts import ALERTS, alerts_of
from tabletopic_kernel.host.metrics.declared import METRICS, Declared, Group

Rows = tuple[list[str], list[list[str]]]

_HEAD = "# Written by `python -m docs.generate` from tabletopic_kernel/host/metrics/alerts.py.\n"
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 24
_UNITS = {"seconds": "s", "bytes": "bytes", "": "short"}
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}


def metrics() -> Rows:
    """Every metric, with its query."""
    rows = [
        [
            f"`{metric.sample}`",
            metric.kind,
            ", ".join(f"`{label}`" for label in metric.labels),
            metric.help,
            ", ".join(alerts_of(metric.name)),
        ]
        for metric in METRICS
    ]
    return ["metric", "kind", "labels", "meaning", "alerts"], rows


def alerts() -> Rows:
    """Every alert: its meaning, and what to do."""
    rows = [
        [alert.name, alert.severity, alert.holds_for, f"{alert.means}.", f"{alert.todo}."] for alert in ALERTS
    ]
    return ["alert", "severity", "after", "what it means", "what to do"], rows


def alert_rules() -> str:
    """A rules file for Prometheus."""
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expr,
            "for": alert.holds_for,
            "labels": {"severity": alert.severity},
            "annotations": {"summary": alert.means, "description": alert.todo},
        }
        for alert in ALERTS
    ]
    groups = {"groups": [{"name": "tabletopic", "rules": rules}]}
    return _HEAD + yaml.safe_dump(groups, sort_keys=False, width=116)


# --- Grafana ----------------------------------------------------------------------------------------------


def dashboard() -> str:
    """A dashboard with a panel per metric, for import."""
    panels: list[dict[str, Any]] = []
    at = 0
    for group in Group:
        shown = [metric for metric in METRICS if metric.group is group]
        panels.append(_placed({"type": "row", "title": group.value, "collapsed": False}, 0, at, _COLUMNS, 1))
        at += 1
        for number, metric in enumerate(shown):
            x, down = number % 2 * _WIDTH, number // 2 * _HEIGHT
            panels.append(_placed(_panel(metric), x, at + down, _WIDTH, _HEIGHT))
        at += -(-len(shown) // 2) * _HEIGHT
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    page = {
        "uid": "tabletopic",
        "title": "Table topics",
        "description": "Written by python -m docs.generate from tabletopic_kernel/host/metrics/declared.py",
        "tags": ["tabletopic"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": panels,
    }
    return json.dumps(page, indent=1) + "\n"


def _placed(panel: dict[str, Any], x: int, y: int, w: int, h: int) -> dict[str, Any]:
    return {**panel, "gridPos": {"x": x, "y": y, "w": w, "h": h}}


def _variables() -> list[dict[str, Any]]:
    def of_label(name: str, metric: str) -> dict[str, Any]:
        query = f"label_values({metric}, {name})"
        return {
            "name": name,
            "type": "query",
            "datasource": _DATASOURCE,
            "query": query,
            "refresh": 2,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }

    return [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        of_label("instance", "tabletopic_topics"),
        of_label("topic", "tabletopic_epoch"),
    ]


def _panel(metric: Declared) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + at), "expr": expr, "legendFormat": legend, "datasource": _DATASOURCE}
        for at, (expr, legend) in enumerate(_queries(metric))
    ]
    unit = _UNITS[metric.unit]
    if metric.kind == "counter":
        unit = "Bps" if metric.unit == "bytes" else "cps"
    return {
        "type": "timeseries",
        "title": _title(metric),
        "description": metric.help,
        "datasource": _DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
    }


def _title(metric: Declared) -> str:
    words = metric.name.removeprefix("tabletopic_").removesuffix(f"_{metric.unit}").removesuffix("_timestamp")
    title = words.replace("_", " ").capitalize()
    if metric.name.endswith("_timestamp_seconds"):
        return f"Time since {title.lower()}"
    return f"{title} per second" if metric.kind == "counter" else title


def _queries(metric: Declared) -> list[tuple[str, str]]:
    """Expressions with their legends."""
    chosen = [f'{name}=~"${name}"' for name in ("instance", *({"topic"} & set(metric.labels)))]
    selector = f"{{{', '.join(chosen)}}}"
    by = metric.labels or ("instance",)
    legend = " ".join(f"{{{{{name}}}}}" for name in by)
    if metric.kind == "histogram":
        rate = f"sum by (le) (rate({metric.name}_bucket{selector}[$__rate_interval]))"
        return [(f"histogram_quantile({part}, {rate})", f"p{part * 100:.0f}") for part in (0.5, 0.95)]
    if metric.kind == "counter":
        return [(f"sum by ({', '.join(by)}) (rate({metric.sample}{selector}[$__rate_interval]))", legend)]
    value = f"max by ({', '.join(by)}) ({metric.name}{selector})"
    if metric.name.endswith("_timestamp_seconds"):
        value = f"time() - {value}"
    return [(f"{value} == 1" if "state" in metric.labels else value, legend)]
