"""The operation that sends sample events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from tabletopic_kernel.faces.operations.operation import Message, Option, operation

if TYPE_CHECKING:
    from tabletopic_kernel._datasets.clickstream.tallies import Tallies
    from tabletopic_kernel.workbench.workbench import Workbench

PANEL = "Try it out"
SampleTopic = Annotated[
    str,
    Option(
        "Topic to send to; created if it is missing",
        metavar="[TOPIC]",
        positional=True,
        default_text="clicks",
    ),
]
Count = Annotated[int, Option("How many events", least=0)]
Version = Annotated[Literal["v1", "v2"], Option("Version of the events' schema")]
Seed = Annotated[int, Option("Seed of the generator: the same seed sends the same events")]


def send(workbench: Workbench, topic: str, count: int, schema: Literal["v1", "v2"], **more: Any) -> Tallies:
    """Send events; ``more`` as for ``produce``."""
    from tabletopic_kernel._datasets.clickstream.produce import produce  # noqa: PLC0415

    servers = workbench.servers
    return produce(servers.kafka, servers.registry, topic, count, schema_version=schema, **more)


@operation(
    PANEL,
    lambda tallies, values: [
        Message("sent {n} events to {topic}", {"n": f"{tallies.events:,}", "topic": values["topic"]})
    ],
    button="Send Sample Events",
)
def sample(
    workbench: Workbench,
    topic: SampleTopic = "clicks",
    count: Count = 10_000,
    schema: Version = "v1",
    seed: Seed = 7,
) -> Tallies:
    """Send clicks of a fictional shop to a topic, as Avro, and count them.

    The tallies are exact: queries of the table must return the same figures.

    Example:  tabletopic sample clicks --count 100000 --rate 500
    """
    return send(workbench, topic, count, schema, seed=seed)
