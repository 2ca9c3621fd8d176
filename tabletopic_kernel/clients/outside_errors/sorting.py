"""Looks up an error in the table: what it is, which system's, and what to do about it."""

from __future__ import annotations

import re
import ssl
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from pyiceberg.exceptions import RESTError

from tabletopic_kernel.clients.outside_errors.names import without_names
from tabletopic_kernel.clients.outside_errors.rules import AWS_CODES, CODES, PACKAGES, STORAGE, TEXTS, Rule
from tabletopic_kernel.clients.proxies import proxy_hint
from tabletopic_kernel.model.errors import CATALOG, Trouble, Verdict
from tabletopic_kernel.model.redact import redact

_MOST: Final = 300  # characters of another program's message
_NEXT: Final = {
    CATALOG: "is it running, and is {section} right?",
    STORAGE: "is it reachable and not full, and are location and keys in {section} right?",
}
Codes = Iterable[tuple[str, object]]
_S3: Final = re.compile(
    r"AWS Error (\w+)(?: \(HTTP status (\d+)\))? during \w+ operation"
    r"(?:: Unable to parse ExceptionName: (\S+))?"
)
_OTHER_REGION: Final = "configured region is '' while the bucket"
_GCS: Final = re.compile(r"google::cloud::Status\((\w+): (?:.*retry\.function=(\w+))?")
_AZURE: Final = re.compile(r"Azure Error: \[(\w*)\]")
_PAGE: Final = re.compile(
    r"RESTError (\d+): (?:Received unexpected JSON Payload|Could not decode json payload).*", re.DOTALL
)
_IN_METADATA: Final = re.compile(r"(?:Unsupported field type: |Input tag '\d+' found using )[^\[\n]*")
_BACKGROUND: Final = re.compile(
    r"(?<!\s)\s*\(Background on this error at: [^()]*\)| error_info=\{.*(?:\}|(?m:$))"
)
_POOL: Final = re.compile(r"^<[^>]*>: |^\w*Connection\(host=[^)]*\): ")


def sort_error(error: BaseException, system: str, *, lent: bool = False, doing: str = "") -> Trouble | None:
    """Classify an error of another library, with its causes; None for a bug in this program.

    ``lent``: the catalog lends the storage's keys, new ones next time; ``doing`` begins the sentence.
    """
    rule = _rule(error)
    if rule is None or rule.verdict is Verdict.BUG:
        return None
    verdict = Verdict.WAIT if lent and rule.keys else rule.verdict
    if rule.setting and verdict is Verdict.ACT:
        return Trouble(plain(error), rule.remedy, doing=doing)
    who = rule.who or system
    proxy = next(filter(None, (proxy_hint(_url(cause)) for cause in _chain(error))), "")
    remedy = f"{rule.remedy or _NEXT[who]}{proxy}"
    return Trouble(f"{rule.lead} ({plain(error)})", remedy, who, verdict=verdict, doing=doing)


def is_refused(error: BaseException) -> bool:
    """Whether the server understood the request and denied it."""
    trouble = sort_error(error, CATALOG)
    return trouble is not None and trouble.verdict is Verdict.ACT and trouble.system != ""


def plain(error: BaseException) -> str:
    """An error's message in one line, without statements, parameters, links or pages; never empty.

    >>> plain(OSError(5, "Input/output error"))
    '[Errno 5] Input/output error'
    """
    text = redact(_message(error)).strip()  # before it is cut: half of a secret would not be recognized
    if page := _PAGE.search(text):
        text = f"HTTP {page[1]}, which is not an error of Iceberg's REST interface"
    elif part := _IN_METADATA.search(text):
        text = part[0].rstrip()
    elif " validation error" in text.partition("\n")[0] and "Response" in text:
        text = "its response is not one of Iceberg's REST interface"
    text = _BACKGROUND.sub("", text)
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= _MOST else f"{line[: _MOST - 1]}…"


def _message(error: BaseException) -> str:
    if (original := getattr(error, "orig", None)) is not None:  # SQLAlchemy's would have the statement
        return str(original)
    if isinstance(error, UnicodeDecodeError):  # the text that could not be read as a whole
        return bytes(error.object).decode(error.encoding, "replace")
    failure = error.args[0] if error.args else None
    if (reason := getattr(failure, "reason", None)) is not None:  # urllib3's, which requests raises
        pool = getattr(failure, "pool", None)
        place = f"{pool.host}:{pool.port}: " if pool is not None else ""
        return f"{place}{_POOL.sub('', str(reason))}"
    message = getattr(error, "message", None)  # Thrift's only have a representation
    if isinstance(message, str) and type(error).__module__.startswith(("thrift", "hive_metastore")):
        return message
    return str(error)


def _rule(error: BaseException) -> Rule | None:
    """The rule of an error. A cause with a code says more than the error that it led to."""
    if (own := _by_code(error) or _by_class(error)) is None:
        return None
    return next(filter(None, map(_by_code, reversed(_chain(error)))), own)


def _chain(error: BaseException) -> list[BaseException]:
    chain = [error]
    for link in chain:  # which grows meanwhile
        causes = (getattr(link, "orig", None), link.__cause__)
        chain += [cause for cause in causes if isinstance(cause, BaseException) and cause not in chain]
    return chain


def _names(error: BaseException) -> list[tuple[str, str]]:
    return [(kind.__module__, kind.__qualname__) for kind in type(error).__mro__]


def _by_code(error: BaseException) -> Rule | None:
    names, text = [".".join(name) for name in _names(error)], _text(error)
    for name in names:
        for part, rule in TEXTS.get(name, {}).items():
            if re.search(part, text):
                return rule
    readings = (_READERS[name](error) for name in names if name in _READERS)
    rules = (CODES[system].get(str(code)) for codes in readings for system, code in codes)
    return next(filter(None, rules), None)


def _by_class(error: BaseException) -> Rule | None:
    names = _names(error)
    rules = [CODES.get(module, {}).get(name) for module, name in names]
    return next(
        filter(None, [*rules, *(PACKAGES.get(module.partition(".")[0]) for module, _ in names)]), None
    )


def _text(error: BaseException) -> str:
    return without_names(" ".join(_message(error).split()))


def _url(error: BaseException) -> str:
    url = getattr(getattr(error, "request", None), "url", None)
    return str(url or getattr(error, "kwargs", {}).get("endpoint_url", ""))


def _rest(error: Any) -> Codes:
    """The status of the response that PyIceberg refused; ``page`` if it is not one of Iceberg's interface."""
    if type(error).__module__ != "pyiceberg.exceptions" and not isinstance(error, NotImplementedError):
        return
    status = getattr(getattr(error.__cause__, "response", None), "status_code", 0)
    yield from (("REST", type(error).__name__), ("REST", status))
    if status // 100 == 4 and _PAGE.match(str(error)):
        yield "REST", "page"
    if isinstance(error, RESTError):
        yield "REST", f"{status // 100}xx"


def _response(error: Any) -> Codes:
    if error.title.endswith("Response"):
        yield from (("response", error.title), ("response", "other"))


def _database(error: Any) -> Codes:
    first = error.orig.args[0] if error.orig.args else ""
    if isinstance(first, dict):  # pg8000's
        first = first.get("C", "")
    yield "SQL", getattr(error.orig, "pgcode", None) or getattr(error.orig, "sqlstate", None) or first


def _sqlite(error: Any) -> Codes:
    code = getattr(error, "sqlite_errorcode", None)  # with details above the lowest byte
    yield "SQLite", type(error).__name__ if code is None else code & 0xFF


def _aws(error: Any) -> Codes:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    yield "AWS", _meaning(error.response.get("Error", {}).get("Code", ""))
    yield from (("AWS", status), ("AWS", f"{status // 100}xx"))


def _meaning(code: str) -> str | None:
    return AWS_CODES.get(code.replace("_", "").lower().removesuffix("exception"))


def _storage(error: Any) -> Codes:
    """The codes of PyArrow's stores, which are in their texts only; or the operating system's."""
    text = _text(error)
    if aws := _S3.search(text):
        if _OTHER_REGION in text and not (aws[2] or "").startswith("5"):  # all that AWS says to HEAD
            yield "S3", "region"
        yield from (("S3", _meaning(aws[3] or aws[1])), ("S3", int(aws[2] or 0)), ("S3", "other"))
    elif gcs := _GCS.search(text):
        yield from (("GCS", f"{gcs[1]}:{gcs[2]}"), ("GCS", gcs[1]), ("GCS", "other"))
    elif azure := _AZURE.search(text):
        yield from (("Azure", azure[1]), ("Azure", "other"))
    yield "errno", getattr(error, "errno", None)


def _tls(error: Any) -> Codes:
    """OpenSSL's reason, which boto3 and requests wrap in errors of urllib3."""
    inner = error.kwargs["error"] if hasattr(error, "kwargs") else next(iter(error.args), None)
    wrapped = getattr(getattr(inner, "reason", inner), "args", ())
    return [("TLS", getattr(e, "reason", None)) for e in (error, *wrapped) if isinstance(e, ssl.SSLError)]


def _raised_in(error: BaseException) -> Codes:
    """The module that raised it: our own bugs may be of the same class."""
    if frames := [frame for frame, _ in traceback.walk_tb(error.__traceback__)]:
        yield "raised in", frames[-1].f_globals.get("__name__")


# How a library reports codes, by the class of its errors: the most specific first.
_READERS: Final[Mapping[str, Callable[[Any], Codes]]] = {
    "builtins.Exception": _rest,  # PyIceberg's errors have no base of their own
    "builtins.OSError": _storage,
    "pyarrow.lib.ArrowException": _storage,
    "builtins.ImportError": lambda error: [("module", (error.name or "").partition(".")[0])],
    "builtins.KeyError": lambda error: [("key", error.args[0] if error.args else None), *_raised_in(error)],
    "builtins.AttributeError": _raised_in,
    "builtins.TypeError": _raised_in,
    "ssl.SSLError": _tls,
    "requests.exceptions.SSLError": _tls,
    "botocore.exceptions.SSLError": _tls,
    "pydantic_core._pydantic_core.ValidationError": _response,
    "sqlalchemy.exc.DBAPIError": _database,
    "sqlite3.Error": _sqlite,
    "botocore.exceptions.ClientError": _aws,
    "thrift.Thrift.TException": lambda error: [
        ("Thrift", f"{type(error).__name__}:{getattr(error, 'type', '')}")
    ],
}
