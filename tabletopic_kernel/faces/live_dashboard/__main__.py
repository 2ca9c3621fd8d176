"""``python -m tabletopic_kernel.faces.live_dashboard``: the dashboard in its own process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from tabletopic_kernel.faces.live_dashboard.server import Place, serve
from tabletopic_kernel.model.errors import TableTopicError


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve according to the arguments; returns 1 if that is impossible."""
    parser = argparse.ArgumentParser(
        prog="python -m tabletopic_kernel.faces.live_dashboard",
        description="The live dashboard of the table topics.",
    )
    listen = parser.add_mutually_exclusive_group()
    listen.add_argument(
        "--unix-socket",
        metavar="PATH",
        help="listen on this unix socket; the folder's permissions keep other users out",
    )
    listen.add_argument(
        "--port", type=int, default=0, help="listen on this port of 127.0.0.1; 0 picks a free one"
    )
    parser.add_argument("--prefix", default="", metavar="/PATH/", help="prefix of all paths")
    parser.add_argument("--parent-pid", type=int, metavar="PID", help="stop when this process ends")
    options = parser.parse_args(arguments)
    try:
        place = Place(options.unix_socket, options.port, options.prefix)
        serve(place, parent_pid=options.parent_pid, ready=partial(print, flush=True))
    except TableTopicError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
