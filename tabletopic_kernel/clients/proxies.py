"""Proxies that environment variables name: never for this machine's servers, and named in errors of others.

HTTP clients exempt 127.0.0.1 only if ``no_proxy`` says so. Each client is configured by itself: the
environment and the libraries of a notebook are its user's.
"""

from __future__ import annotations

import os
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

from tabletopic_kernel.model.redact import mask
from tabletopic_kernel.model.settings.cluster import is_loopback

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def proxy_hint(url: str) -> str:
    """The end of an error's message if requests for ``url`` go through a proxy; otherwise nothing.

    >>> proxy_hint("http://127.0.0.1:8081")
    ''
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host or is_loopback(url) or proxy_bypass_environment(host):
        return ""
    for name in (f"{parts.scheme}_proxy", "all_proxy"):
        for variable in (name, name.upper()):
            if proxy := os.environ.get(variable):
                return (
                    f"; asked through the proxy of {variable}={mask(proxy)}: for a server that is reached "
                    f"without it, set no_proxy={_no_proxy(host)}"
                )
    return ""


def _no_proxy(*hosts: str) -> str:
    exempt = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    return exempt if "*" in exempt.split(",") else ",".join(filter(None, (exempt, *hosts)))


def child_environment() -> dict[str, str]:
    """Variables with which a child process asks this machine's servers without a proxy."""
    return dict.fromkeys(("no_proxy", "NO_PROXY"), _no_proxy(*LOOPBACK))
