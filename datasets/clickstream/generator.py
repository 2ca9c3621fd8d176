"""A seeded stream of web shop visits.

The same seed gives the same events on every machine: it uses only ``random()`` and ``getrandbits()`` of
``random.Random``, no libm function, set order or ``hash()``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, NamedTuple

from tabletopic_kernel._datasets.clickstream import shop
from tabletopic_kernel._datasets.clickstream.avro import SCHEMA_VERSIONS, Encoder, SchemaVersion, schema_text
from tabletopic_kernel._datasets.clickstream.tallies import DeviceTally, Tallies
from tabletopic_kernel.model.errors import UsageError

__all__ = [
    "START",
    "Clickstream",
    "DeviceTally",
    "Encoder",
    "Event",
    "Prebuilt",
    "SchemaVersion",
    "Tallies",
    "schema_text",
]

# A Monday morning. A fixed instant, so that the same seed gives the same bytes.
START: Final = datetime(2026, 1, 5, 6, 0, tzinfo=UTC)

_HOUR_MS: Final = 3_600_000
_INT_MAX: Final = 2_147_483_647
# Sessions per hour of the day in UTC, in percent of the daily mean.
_RUSH: Final = (
    *(40, 26, 20, 18, 22, 40, 70, 95, 110, 118, 122, 126),
    *(130, 124, 116, 112, 118, 130, 150, 168, 175, 150, 104, 66),
)
# Mean time between session starts at 100 %: 100,000 events are a working day of about nine hours.
_SESSION_GAP_MS: Final = 1_450
_HOME, _CATEGORY, _PRODUCT, _CART, _CHECKOUT, _PURCHASE = range(6)
_STEP_BITS: Final = tuple(1 << step for step in range(6))
_ID_BATCH: Final = 512


class Event(NamedTuple):
    """One future record: key, value as a dict that fits the Avro schema, record time in ms.

    ``timestamp_ms`` is when the shop's server received the event; ``event_time`` in the value is earlier.
    Values share their ``device`` dicts: do not modify them.
    """

    key: bytes
    value: dict[str, Any]
    timestamp_ms: int


@dataclass(slots=True, eq=False)
class _Visit:
    """One session: what all its events share, and a bit for each step already returned."""

    user: shop.User
    session_id: str
    device: shop.DeviceModel
    country_v2: str | None
    start_ms: int
    tab_age_ms: int
    seen: int = 0


# Step, path, product and quantity of one page of a visit.
_Page = tuple[int, str, shop.Product | None, int | None]
# A page on its way to the server: arrival in ms, a tie-breaking number, event time in ms, referrer. A plain
# tuple: the heap compares it about ten times.
_Pending = tuple[int, int, int, str | None, _Page, _Visit]


class Clickstream:
    """An endless stream of events in order of arrival, and its tallies.

    ``seed`` determines everything; ``schema_version`` is the shape of the events until ``switch_schema``;
    ``start`` is the simulated time of the first session. Raises ``UsageError`` for an unknown version or a
    start without a zone.
    """

    def __init__(self, seed: int = 7, schema_version: SchemaVersion = "v1", start: datetime = START) -> None:
        if start.tzinfo is None:
            raise UsageError(f"the start {start} has no time zone; use for example {START.isoformat()}")
        self.tallies = Tallies()
        self._rng = Random(seed)
        # Ids have their own random stream: the number drawn does not affect the visits.
        self._ids = _event_ids(Random(seed + 1))
        self._products = shop.products(self._rng)
        self._users = shop.users(self._rng)
        self._categories = shop.categories()
        self._referrers = shop.landing_referrers()
        self._visits_of: dict[str, int] = {}
        self._users_of: dict[str, set[str]] = {kind: set() for kind in shop.DEVICE_TYPES}
        self._pending: list[_Pending] = []
        self._pages = 0
        self._next_visit_ms = int(start.timestamp()) * 1000
        self.switch_schema(schema_version)

    def switch_schema(self, schema_version: SchemaVersion) -> None:
        """Shape the events by ``schema_version``, from the next one on."""
        if schema_version not in SCHEMA_VERSIONS:
            raise UsageError(
                f"unknown schema version {schema_version!r}; use one of {', '.join(SCHEMA_VERSIONS)}"
            )
        self.schema_version = schema_version
        self.tallies.events_by_version.setdefault(schema_version, 0)

    def events(self, count: int) -> Iterator[Event]:
        """The next ``count`` events; a second call continues after the first."""
        pending = self._pending
        for _ in range(count):
            # A visit sends nothing before it starts: up to the next start the order is final.
            while not pending or pending[0][0] >= self._next_visit_ms:
                self._open_visit()
            arrival_ms, _, event_ms, referrer, page, visit = heappop(pending)
            self._tally(event_ms, page, visit)
            yield Event(visit.user.key, self._value(event_ms, referrer, page, visit), arrival_ms)

    def _value(self, event_ms: int, referrer: str | None, page: _Page, visit: _Visit) -> dict[str, Any]:
        step, url, product, quantity = page
        open_ms = event_ms - visit.start_ms + visit.tab_age_ms
        first = self.schema_version == "v1"
        return {
            "event_id": next(self._ids),
            "event_time": event_ms,
            "user_id": visit.user.user_id,
            "session_id": visit.session_id,
            "event_type": shop.STEPS[step],
            "url": url,
            "referrer": referrer,
            "product_id": product and product.product_id,
            "price": product and product.price,
            "quantity": quantity,
            "device": visit.device.v1 if first else visit.device.v2,
            "country": visit.user.country if first else visit.country_v2,
            "duration_ms": min(open_ms, _INT_MAX) if first else open_ms,
        }

    def _tally(self, event_ms: int, page: _Page, visit: _Visit) -> None:
        tallies = self.tallies
        step, url, product, quantity = page
        tallies.events += 1
        tallies.events_by_version[self.schema_version] += 1
        views = tallies.views_by_url
        views[url] = views.get(url, 0) + 1
        if not visit.seen & _STEP_BITS[step]:
            visit.seen |= _STEP_BITS[step]
            tallies.sessions_by_step[shop.STEPS[step]] += 1
        kind = visit.device.type
        tallies.devices[kind].events += 1
        users = self._users_of[kind]
        if visit.user.user_id not in users:
            users.add(visit.user.user_id)
            tallies.devices[kind].users += 1
        if step == _PURCHASE and product and quantity:
            hour = _hour(event_ms)
            revenue = tallies.revenue_cents_by_hour
            revenue[hour] = revenue.get(hour, 0) + product.price_cents * quantity

    def _open_visit(self) -> None:
        """Start the next session and schedule all its events."""
        draw = self._rng.random
        start_ms = self._next_visit_ms
        rush = _RUSH[start_ms // _HOUR_MS % 24]
        self._next_visit_ms += 1 + int(draw() * 2 * _SESSION_GAP_MS * 100 / rush)
        user = self._users.draw(self._rng)
        number = self._visits_of.get(user.user_id, 0) + 1
        self._visits_of[user.user_id] = number
        visit = _Visit(
            user,
            f"{user.user_id}-{number}",
            user.devices[draw() < 0.15],
            None if draw() < 0.06 else user.country,
            start_ms,
            _tab_age_ms(draw(), draw()),
        )
        referrer = self._referrers.draw(self._rng)
        event_ms = start_ms
        for page in self._walk():
            self._pages += 1
            arrival_ms = event_ms + _delay_ms(draw(), draw())
            heappush(self._pending, (arrival_ms, self._pages, event_ms, referrer, page, visit))
            referrer = shop.SHOP + page[1]
            # 2 s to 3 min per page, mostly short.
            look = draw()
            event_ms += 2_000 + int(178_000 * look * look * look * look)

    def _walk(self) -> Iterator[_Page]:
        """The pages of one session: down the funnel, with loops between categories and products."""
        draw = self._rng.random
        yield _HOME, "/", None, None
        if draw() < 0.24:
            return
        while True:
            name = self._categories.draw(self._rng)
            yield _CATEGORY, f"/{name}", None, None
            if draw() < 0.20:
                return
            while True:
                product = self._products[name].draw(self._rng)
                yield _PRODUCT, product.url, product, None
                turn = draw()
                if turn >= 0.38:
                    break
            if turn >= 0.60:
                break
        if turn >= 0.82:
            return
        extra = draw()
        quantity = 1 + int(4 * extra * extra)
        yield _CART, "/cart", product, quantity
        if draw() < 0.35:
            return
        yield _CHECKOUT, "/checkout", product, quantity
        if draw() < 0.22:
            return
        yield _PURCHASE, "/checkout/thanks", product, quantity


class Prebuilt:
    """``distinct`` events, encoded once, to be sent repeatedly: for load tests.

    A load of more than ``distinct`` records repeats event ids; ``tallies`` takes that into account.
    ``schema_id`` is for the values' prefix.
    """

    def __init__(
        self,
        schema_id: int,
        distinct: int = 50_000,
        seed: int = 7,
        schema_version: SchemaVersion = "v1",
        start: datetime = START,
    ) -> None:
        if distinct < 1:
            raise UsageError(f"a pool of {distinct} distinct events is empty; use 1 or more")
        stream = Clickstream(seed, schema_version, start)
        encode = Encoder(schema_version).frame(schema_id).encode
        self._made_by = (seed, schema_version, start)
        self.records = [
            (event.key, encode(event.value), event.timestamp_ms) for event in stream.events(distinct)
        ]
        self._one_pass = stream.tallies

    def tallies(self, count: int) -> Tallies:
        """The tallies of the first ``count`` records of the repetition."""
        times, rest = divmod(count, len(self.records))
        beginning = Clickstream(*self._made_by)
        for _ in beginning.events(rest):
            pass
        return self._one_pass.repeated(times, beginning.tallies)


def _event_ids(rng: Random) -> Iterator[str]:
    """Random UUIDs (version 4, RFC 9562) as text, drawn in batches."""
    while True:
        digits = f"{rng.getrandbits(128 * _ID_BATCH):0{32 * _ID_BATCH}x}"
        for at in range(0, len(digits), 32):
            one = digits[at : at + 32]
            yield f"{one[:8]}-{one[8:12]}-4{one[13:16]}-a{one[17:20]}-{one[20:]}"


def _tab_age_ms(kind: float, age: float) -> int:
    """How long the tab was open before the visit: mostly new, some for hours, a few for weeks."""
    if kind < 0.90:
        return 0
    if kind < 0.98:
        return int(age * 8 * _HOUR_MS)
    return int((25 + age * 45) * 24 * _HOUR_MS)  # 25 days and more: too large for an Avro int


def _delay_ms(kind: float, delay: float) -> int:
    """From the visitor's device to the server: below a second, for 2 % of the events 1 to 6 minutes."""
    if kind < 0.98:
        return 15 + int(900 * delay * delay)
    return 60_000 + int(300_000 * delay)


def _hour(event_ms: int) -> str:
    start = datetime.fromtimestamp(event_ms // _HOUR_MS * 3600, UTC)
    return f"{start:%Y-%m-%dT%H}:00:00Z"
