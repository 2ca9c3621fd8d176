"""Looks up an error in the table: what it is, which system's, and what to do about it."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from tabletopic_kernel.clients.outside_errors.rules import CATALOG, ROWS, STORAGE, Row, Verdict
from tabletopic_kernel.clients.proxies import proxy_hint
from tabletopic_kernel.model.errors import ActionNeededError, RetryableError, SettingsError, TableTopicError

_MOST: Final = 300  # characters of another program's message
_NEXT: Final = {
    CATALOG: "is it running, and is [catalog] right?",
    STORAGE: "is it reachable and not full, and are location and keys in [catalog] right?",
}
_DEPTH: Final = 4
_PAGE: Final = re.compile(
    r"RESTError (\d+): (?:Received unexpected JSON Payload|Could not decode json payload).*", re.DOTALL
)
_IN_METADATA: Final = re.compile(r"(?:Unsupported field type: |Input tag '\d+' found using )[^\[\n]*")
_BACKGROUND: Final = re.compile(
    r"(?<!\s)\s*\(Background on this error at: [^()]*\)| error_info=\{.*(?:\}|(?m:$))"
)
_POOL: Final = re.compile(r"^<[^>]*>: |^\w*Connection\(host=[^)]*\): ")


@dataclass(frozen=True)
class Sorted:
    """A classified error; ``text`` is the library's message in one line."""

    row: Row
    verdict: Verdict
    who: str
    text: str
    proxy: str = ""  # through which the request went, and how to avoid it

    @property
    def remedy(self) -> str:
        """What to do, or to check."""
        return self.row.remedy or _NEXT[self.who]

    @property
    def reason(self) -> str:
        """Which system failed, why, and what to do."""
        return f"{self.who} {self.row.lead} ({self.text}); {self.remedy}{self.proxy}"

    def error(self) -> TableTopicError:
        """The error for users."""
        if self.verdict is Verdict.WAIT:
            return RetryableError(self.reason)
        if self.row.setting:
            return SettingsError(f"[catalog] {self.text}: {self.remedy}")
        return ActionNeededError(self.reason)


def sort_error(error: BaseException, asked: str, *, lent: bool = False) -> Sorted | None:
    """Classify an error of another library; None for a bug in this program.

    Args:
        error: as it was raised; its causes count, too.
        asked: the catalog or the storage, whichever was called.
        lent: the catalog lends the storage's keys, and lends new ones next time.
    """
    if not any(_fits(row, error) for row in ROWS):
        return None
    chain = list(_chain(error))
    row = next(row for row in ROWS if any(_fits(row, one) for one in chain))
    if row.verdict is Verdict.BUG:
        return None
    verdict = Verdict.WAIT if lent and row.keys else row.verdict
    proxy = next(filter(None, (proxy_hint(_url(one)) for one in chain)), "")
    return Sorted(row, verdict, row.who or asked, plain(error), proxy)


def is_refused(error: BaseException) -> bool:
    """Whether the server understood the request and denied it."""
    found = sort_error(error, CATALOG)
    return found is not None and found.verdict is Verdict.ACT and not found.row.setting


def plain(error: BaseException) -> str:
    """An error's message in one line, without statements, parameters, links or pages; never empty.

    >>> plain(OSError(5, "Input/output error"))
    '[Errno 5] Input/output error'
    """
    text = _said(error).strip()
    if page := _PAGE.search(text):
        text = f"HTTP {page[1]}, which is not an error of Iceberg's REST interface"
    elif part := _IN_METADATA.search(text):
        text = part[0].rstrip()
    elif " validation error" in text.partition("\n")[0] and "Response" in text:
        text = "its response is not one of Iceberg's REST interface"
    text = _BACKGROUND.sub("", text)
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def _said(error: BaseException) -> str:
    """The original message of a wrapped error."""
    if (original := getattr(error, "orig", None)) is not None:  # SQLAlchemy's would have the statement
        return str(original)
    if isinstance(error, UnicodeDecodeError):  # the text that could not be read as a whole
        return bytes(error.object).decode(error.encoding, "replace")
    pool = error.args[0] if error.args else None
    if (reason := getattr(pool, "reason", None)) is not None:  # urllib3's, which requests raises
        at = getattr(pool, "pool", None)
        place = f"{at.host}:{at.port}: " if at is not None else ""
        return f"{place}{_POOL.sub('', str(reason))}"
    message = getattr(error, "message", None)  # Thrift's only have a representation
    if isinstance(message, str) and type(error).__module__.startswith(("thrift", "hive_metastore")):
        return message
    return str(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes."""
    seen, waiting = 0, [error]
    while waiting and seen < _DEPTH:
        one = waiting.pop(0)
        yield one
        seen += 1
        waiting += [
            more for more in (getattr(one, "orig", None), one.__cause__) if isinstance(more, BaseException)
        ]


def _fits(row: Row, error: BaseException) -> bool:
    names = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    if not any(name.startswith(row.kinds) for name in names) or not row.says.search(_evidence(error)):
        return False
    return not row.places or _place(error) in row.places


def _place(error: BaseException) -> object:
    """The name of the module that raised the error; None before it was raised."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return frames[-1].f_globals.get("__name__") if frames else None


def _evidence(error: BaseException) -> str:
    """Code, HTTP status and text, in the form that rows search."""
    status, code = _status(error), _code(error)
    if isinstance(error, OSError) and error.errno is not None:
        code = f"errno {error.errno}"
    return f"[{code}] [HTTP {status}] {_said(error)}"


def _url(error: BaseException) -> str:
    """The address that a request of requests or boto3 was for."""
    url = getattr(getattr(error, "request", None), "url", None)
    return str(url or getattr(error, "kwargs", {}).get("endpoint_url", ""))


def _status(error: BaseException) -> object:
    """The HTTP status of a response of AWS or of a REST catalog."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        return response.get("ResponseMetadata", {}).get("HTTPStatusCode", "")
    return getattr(getattr(error.__cause__, "response", None), "status_code", "")


def _code(error: BaseException) -> object:
    """The code of a response of AWS, or of a database: SQLSTATE, or MySQL's number."""
    response: Any = getattr(error, "response", None)
    if isinstance(response, dict):
        return response.get("Error", {}).get("Code", "")
    one = getattr(error, "orig", None) or error
    for name in ("pgcode", "sqlstate"):
        if code := getattr(one, name, None):
            return code
    first = one.args[0] if one.args else ""
    if isinstance(first, dict):  # pg8000's
        return first.get("C", "")
    return first if isinstance(first, int) else ""
