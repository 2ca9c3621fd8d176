"""The meaning of the registry's responses: no such schema, or no registry that could know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tabletopic_kernel.clients.registry.registry import Registry, UnknownSchemaError, find_schema
from tabletopic_kernel.model.errors import LoginRefusedError, RetryableError, SettingsError
from tests.servers.http_server import Handler, HttpServer

KNOWN, GONE, NO_PAGE, CLOSED = (f"6da336d8-f1d3-0f98-4c47-d03ee8a14a1{digit}" for digit in range(4))
ANSWERS: dict[str, tuple[int, Any]] = {
    "/schemas/ids/1": (200, {"schema": '"string"'}),
    "/schemas/ids/1/versions": (200, [{"subject": "a-value", "version": 3}]),
    "/schemas/ids/2": (404, {"error_code": 40403, "message": "Schema 2 not found"}),
    "/schemas/ids/3": (404, {"title": "no such page"}),
    "/schemas/ids/4": (404, "<html>not here</html>"),
    "/schemas/ids/5": (403, {"error_code": 40301, "message": "no"}),
    "/schemas/ids/6": (200, {"schema": '"int"'}),
    "/schemas/ids/6/versions": (404, {"error_code": 40403, "message": "its subject is deleted"}),
    f"/schemas/guids/{KNOWN}": (200, {"schema": '"long"', "guid": KNOWN}),
    f"/schemas/guids/{GONE}": (404, {"error_code": 40403, "message": "Schema not found"}),
    f"/schemas/guids/{NO_PAGE}": (404, ""),
    f"/schemas/guids/{CLOSED}": (403, ""),
    "/subjects": (200, ["a-value"]),
    "/subjects/a-value": (200, {"subject": "a-value", "version": 2, "id": 9, "schema": '"long"'}),
    "/subjects/b-value": (404, {"error_code": 40401, "message": "no subject"}),
    "/subjects/a-value/versions/latest": (404, {"error_code": 40401, "message": "no subject"}),
}

ASKED: list[str] = []


class _Handler(Handler):
    def do_GET(self) -> None:  # noqa: N802 - the standard library's name
        """Respond according to the table above, whatever was sent."""
        ASKED.append(self.path)
        self.body()
        status, body = ANSWERS.get(self.path.partition("?")[0], (404, ""))
        self.give(status, (body if isinstance(body, str) else json.dumps(body)).encode())

    do_POST = do_GET  # noqa: N815


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    """A client of a server with these responses."""
    with HttpServer(_Handler) as server:
        yield Registry({"url": server.url})


def test_a_schema_with_its_place(registry: Registry) -> None:
    """The newest subject and version, deleted ones too; what is not there has a code of its own."""
    found = registry.by_id(1)
    assert (found.text, found.subject, found.version, found.kind) == ('"string"', "a-value", 3, "AVRO")
    assert registry.subjects() == ["a-value"]
    assert "deleted=true" in ASKED[-1].lower()
    assert registry.by_id(6).text == '"int"'
    with pytest.raises(UnknownSchemaError):
        registry.by_id(2)
    assert registry.latest("a-value") is None


@pytest.mark.parametrize("schema_id", [3, 4, 5])
def test_other_refusals_say_nothing_about_the_schema(registry: Registry, schema_id: int) -> None:
    """A page that is not there, or a closed door, is waited out: it makes no dead letter (I9)."""
    with pytest.raises(RetryableError, match="url"):
        registry.by_id(schema_id)


def test_a_limit_of_requests_is_waited_out(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message blames no setting."""
    monkeypatch.setitem(ANSWERS, "/subjects", (429, {"error_code": 429, "message": "slow down"}))
    with pytest.raises(RetryableError, match=r"limits requests.*slow down.*have its limit raised"):
        registry.check()


def test_a_refused_login_rests_for_a_minute(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts ask for each topic; the second question gets the first one's answer."""
    refusal = (401, {"error_code": 40101, "message": "Unauthorized"})
    monkeypatch.setitem(ANSWERS, "/subjects", refusal)
    refused = Registry({"url": registry.url})  # the others' own is not to be shut out
    ASKED.clear()
    for ask in (refused.check, refused.subjects, lambda: refused.by_id(7)):
        with pytest.raises(LoginRefusedError, match="refuses the login"):
            ask()
    assert len(ASKED) == 1


@pytest.mark.parametrize(
    ("url", "token"),
    [
        (None, "t0ken\n"),  # of a file, as variables often have them
        (None, "t0ken\u201d"),
        ("http://registry..example:8081", "t0ken"),
        ("http://127.0.0.1:x", "t0ken"),
    ],
)
def test_what_no_request_can_have_is_a_wrong_setting(registry: Registry, url: str | None, token: str) -> None:
    """It would fail at each try, and the registry is not to blame."""
    login = {"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": token}
    with pytest.raises(SettingsError, match="no request can be made"):
        Registry({"url": url or registry.url, **login}).check()


def test_a_schema_by_guid(registry: Registry) -> None:
    """Its version is that in the subject that it is looked for in; without one it is still a schema."""
    found = registry.by_guid(KNOWN, "a-value")
    assert (found.id, found.text, found.subject, found.version) == (KNOWN, '"long"', "a-value", 2)
    elsewhere = registry.by_guid(KNOWN, "b-value")
    assert (elsewhere.text, elsewhere.subject, elsewhere.version) == ('"long"', "", 0)


@pytest.mark.parametrize(
    ("guid", "place", "error", "words"),
    [
        (GONE, "", UnknownSchemaError, GONE),
        (NO_PAGE, "", UnknownSchemaError, "has no GUIDs"),
        (CLOSED, "", RetryableError, "url"),  # closed doors and pages that are not there say nothing (I9)
        (NO_PAGE, "/elsewhere", RetryableError, "url"),
    ],
)
def test_unknown_guids(registry: Registry, guid: str, place: str, error: type[Exception], words: str) -> None:
    """No such schema and no GUIDs at all are told; where no registry answers, it is waited for."""
    with pytest.raises(error, match=words):
        Registry({"url": registry.url + place}).by_guid(guid, "a-value")


@pytest.mark.parametrize("told", ["AVRO", "JSON", "PROTOBUF"])
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"type": "record", "name": "A", "fields": []}', "AVRO"),
        ('{"type": "enum", "name": "E", "symbols": ["X"]}', "AVRO"),
        ('["null", "string"]', "AVRO"),
        ('{"type": "object", "properties": {}, "symbols": 1}', "JSON"),
        ("true", "JSON"),
        ('{"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}', "JSON"),
        ('syntax = "proto3"; message A { int64 id = 1; }', "PROTOBUF"),
        ("CglvcmQucHJvdG8SBHNob3A=", "PROTOBUF"),
    ],
)
def test_the_format_is_that_of_the_text(registry: Registry, told: str, text: str, kind: str) -> None:
    """Apicurio calls each version of a subject what the first one was, whatever format it has."""
    schema_id = 100 + len(ANSWERS)
    ANSWERS[f"/schemas/ids/{schema_id}"] = (200, {"schema": text, "schemaType": told})
    ANSWERS[f"/schemas/ids/{schema_id}/versions"] = (200, [{"subject": "a-value", "version": 4}])
    assert registry.by_id(schema_id).kind == kind


_RECORD = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}'
_HTML = "<html><body>Service unavailable</body></html>"
_CUT = '{"schema": "{'
_PLACE = [{"subject": "odd-value", "version": 1}]


def _serve(schema_id: int, answer: Any, version: Any = None, places: Any = _PLACE) -> None:
    """Set the response for an id, and optionally for its version of a subject."""
    ANSWERS[f"/schemas/ids/{schema_id}"] = (200, answer)
    ANSWERS[f"/schemas/ids/{schema_id}/versions"] = (200, places)
    ANSWERS.pop("/subjects/odd-value/versions/1", None)
    if version is not None:
        ANSWERS["/subjects/odd-value/versions/1"] = (200, version)


def _version(schema_id: Any, text: Any, **more: Any) -> dict[str, Any]:
    return {"subject": "odd-value", "version": 1, "id": schema_id, "schema": text, **more}


@pytest.mark.parametrize(
    "answer",
    [
        *({"schema": text} for text in (5, None, ["string"], "not avro", "", _HTML, _RECORD[:-5], "{}")),
        *({"schema": text} for text in ('"nonsense"', '{"type": "record"}')),
        *({"schema": _RECORD, "schemaType": kind} for kind in ("PROTOBUF", 5, "XML")),
        {"schema": 'syntax = "proto3"; message {', "schemaType": "PROTOBUF"},
        *({"schema": _RECORD, "references": [one]} for one in (5, {"name": 1, "subject": "a", "version": 1})),
        *({}, [], 5, None, "", _HTML, _CUT),
    ],
)
def test_a_wrong_answer_is_trouble_and_is_not_kept(registry: Registry, answer: Any) -> None:
    """It makes no dead letter (I9), and is asked again: when the registry is well, it counts."""
    raw = json.dumps(answer) if answer not in ("", _HTML, _CUT) else answer
    if answer == {"schema": _RECORD, "schemaType": "PROTOBUF"}:  # the text is good, but another than its own
        answer["schema"] = _RECORD.replace('"a"', '"b"')
        raw = json.dumps(answer)
    _serve(7, raw, _version(7, _RECORD))
    for _ in range(2):
        with pytest.raises(RetryableError, match="returned an invalid response for schema id 7: "):
            registry.by_id(7)
    _serve(7, {"schema": _RECORD}, _version(7, _RECORD))
    assert registry.by_id(7).text == _RECORD


@pytest.mark.parametrize("version", [_version(8, _RECORD), _version("7", _RECORD), _HTML, [], {"schema": 5}])
def test_a_doubtful_schema_needs_no_contradiction(registry: Registry, version: Any) -> None:
    """A text of another format than the registry says counts, if it is the same by subject and version."""
    text = '{"type": "object"}'
    _serve(7, {"schema": text}, version)
    with pytest.raises(RetryableError):
        registry.by_id(7)
    _serve(7, {"schema": text}, _version(7, text))
    assert registry.by_id(7).kind == "JSON"


def test_what_a_registry_insists_on_counts(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that has not even the form of a schema counts if it is the same a minute later, on both ways."""
    now = [1_000.0]
    monkeypatch.setattr("tabletopic_kernel.clients.registry.registry.time.monotonic", lambda: now[0])
    _serve(7, {"schema": "not avro"}, _version(7, "not avro"))
    for later in (0, 10, 59):
        now[0] = 1_000.0 + later
        with pytest.raises(RetryableError, match="not avro"):
            registry.by_id(7)
    now[0] = 1_061.0
    assert registry.by_id(7).text == "not avro"
    _serve(7, {"schema": "not avro"})  # nobody else says so
    with pytest.raises(RetryableError):
        registry.by_id(7)


@pytest.mark.parametrize(
    "wrong",
    [
        _version("x", _RECORD), _version(7, 5), _version(7, "not avro"),
        {**_version(7, _RECORD), "subject": "another-value"}, {"schema": _RECORD}, _HTML, [],
    ],
)  # fmt: skip
def test_a_wrong_newest_version_is_trouble(registry: Registry, wrong: Any) -> None:
    """Of a subject, by latest and by number; the next answer counts."""
    _serve(7, {"schema": _RECORD}, _version(7, _RECORD))
    ANSWERS["/subjects/odd-value/versions/latest"] = (200, wrong)
    with pytest.raises(RetryableError):
        registry.latest("odd-value")
    ANSWERS["/subjects/odd-value/versions/latest"] = (200, _version(7, _RECORD))
    found = registry.latest("odd-value")
    assert (found.id, found.text) == (7, _RECORD)


def test_the_newest_version_is_asked_for_each_time(registry: Registry) -> None:
    """What was registered since is the newest; one whose reference is gone is waited for."""
    newest = "/subjects/odd-value/versions/latest"
    ANSWERS[newest] = (200, _version(7, _RECORD))
    assert registry.latest("odd-value") == registry.latest("odd-value")
    ANSWERS[newest] = (200, {**_version(8, '"int"'), "version": 2})
    found = registry.latest("odd-value")
    assert (found.id, found.version) == (8, 2)
    ANSWERS[newest] = (200, _version(7, _RECORD, references=[_reference("gone")]))
    ANSWERS["/subjects/gone/versions/1"] = (404, {"error_code": 40401, "message": "no subject"})
    with pytest.raises(RetryableError, match=r"odd-value is not whole: .* has no gone version 1"):
        registry.latest("odd-value")


def _reference(name: str) -> dict[str, Any]:
    return {"name": name, "subject": name, "version": 1}


def test_references_in_a_circle_and_chains_without_end(registry: Registry) -> None:
    """A circle is left to the format; a chain that does not end is no schema to us."""

    def refer(subject: str, to: str) -> None:
        version = {**_version(9, '"int"', references=[_reference(to)]), "subject": subject}
        ANSWERS[f"/subjects/{subject}/versions/1"] = (200, version)

    _serve(7, {"schema": _RECORD, "references": [_reference("b")]})
    refer("b", "a")
    refer("a", "b")
    assert [name for name, _ in registry.by_id(7).references] == ["a", "b"]
    for at in range(150):
        refer(f"c{at}", f"c{at + 1}")
    _serve(7, {"schema": _RECORD, "references": [_reference("c0")]})
    with pytest.raises(UnknownSchemaError, match="chain"):
        registry.by_id(7)


def test_a_schema_of_several_subjects_has_the_version_of_the_one_that_asks(registry: Registry) -> None:
    """A topic's own subject counts, whatever others call the same schema; else the highest version."""
    places = [("b-value", 9), ("a-value", 1), ("a-value", 2), ("c-value", 3)]
    named = [{"subject": subject, "version": version} for subject, version in places]
    _serve(7, {"schema": _RECORD}, places=named)
    found = [find_schema(registry, 7, subject) for subject in ("a-value", "c-value", "d-value")]
    assert [(one.subject, one.version) for one in found] == [("a-value", 2), ("c-value", 3), ("b-value", 9)]


@pytest.mark.parametrize(
    ("name", "text"),
    [("timeout", "nan"), ("timeout", "-1"), ("max.retries", "inf"), ("cache.capacity", "1e30")],
)
def test_a_number_that_is_none_is_no_registry_that_is_away(name: str, text: str) -> None:
    """These were told as an outage, and waited out for ever, or as a bug."""
    with pytest.raises(SettingsError, match=rf"\[registry\] {name} = {text}: it must be a number from 0 to"):
        Registry({"url": "http://127.0.0.1:9", name: text})
