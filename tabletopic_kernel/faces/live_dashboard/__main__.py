"""``python -m tabletopic_kernel.faces.live_dashboard``: the dashboard in its own process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tabletopic_kernel.faces.live_dashboard.server import Place, serve
from tabletopic_kernel.model.errors import TableTopicError


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve according to the arguments; returns 1 if that is impossible."""
    parser = argparse.ArgumentParser(
        prog="python -m tabletopic_kernel.faces.live_dashboard",
        description="The live dashboard of the table topics.",
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--unix-socket",
        metavar="PATH",
        help="listen on this unix socket; the folder's permissions keep other users out",
    )
    place.add_argument(
        "--port", type=int, default=0, help="listen on this port of 127.0.0.1; 0 picks a free one"
    )
    parser.add_argument("--prefix", default="", metavar="/PATH/", help="prefix of all paths")
    parser.add_argument("--parent-pid", type=int, metavar="PID", help="stop when this process ends")
    given = parser.parse_args(arguments)
    try:
        serve(Place(given.unix_socket, given.port, given.prefix), parent_pid=given.parent_pid, ready=_tell)
    except TableTopicError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _tell(where: str) -> None:
    print(where, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
