"""What a worker says of what went wrong."""

from __future__ import annotations

from tabletopic_kernel.core.redact import redact
from tabletopic_kernel.ingest.plan import StageResult


def explain_refused(topic: str, result: StageResult) -> str:
    """The first refused record, and how many more there are."""
    first = min(result.samples, key=lambda bad: (bad.partition, bad.offset))
    more = f" (and {result.refused_count - 1} more in this batch)" if result.refused_count > 1 else ""
    schema = f", schema id {first.schema_id}" if first.schema_id is not None else ""
    return (
        f"{topic} partition {first.partition} offset {first.offset}{schema}: "
        f"{first.reason}: {first.message}{more}"
    )


def explain_no_table(topic: str, result: StageResult) -> str:
    """Why there is no table after these records, and what it waits for."""
    passed = sum(result.passed_over.values())
    without = result.records - result.refused_count - passed
    found = [f"{without:,} without a field (no value, or an empty object)"] if without else []
    if passed:
        found.append(f"{passed:,} that ask for no row ({', '.join(sorted(result.passed_over))})")
    if result.refused_count:
        told = f": {explain_refused(topic, result)}" if result.samples else ""
        found.append(f"{result.refused_count:,} that cannot be rows{told}")
    return (
        f"{topic} has no table yet, since its first {result.records:,} records tell of no columns: "
        f"{'; '.join(found)}. They wait; the table comes with the first record that has a field"
    )


def reason_of(error: Exception) -> str:
    """The telling line of a Spark failure: where a Python trace ends, else where the message begins."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    traced = any(line.startswith("Traceback") for line in lines)
    return redact(lines[-1 if traced else 0])[:500]  # first: half of a secret would not be known again
