"""The shop of the clickstream: what it sells and who visits it.

Weights are integers and no libm function is called, so every machine draws the same values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from decimal import Decimal
from itertools import accumulate
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeVar

STEPS: Final = ("home", "category", "product", "cart", "checkout", "purchase")
DEVICE_TYPES: Final = ("desktop", "mobile", "tablet")

USERS: Final = 20_000
PRODUCTS: Final = 400
CATEGORIES: Final = ("garden", "kitchen", "lighting", "office", "outdoor", "textiles")
_CATEGORY_WEIGHTS: Final = (26, 22, 17, 14, 12, 9)
_MATERIALS: Final = ("oak", "steel", "linen", "cork", "clay", "wool", "glass", "bamboo")
_THINGS: Final = {
    "garden": ("bench", "planter", "lantern", "trowel"),
    "kitchen": ("bowl", "board", "kettle", "rack"),
    "lighting": ("lamp", "shade", "sconce", "candle"),
    "office": ("desk", "tray", "stool", "clock"),
    "outdoor": ("bottle", "blanket", "basket", "chair"),
    "textiles": ("curtain", "cushion", "rug", "throw"),
}
# (type, os, browser, weight): shares of a shop with more phones than desks.
_DEVICES: Final = (
    ("desktop", "Windows 11", "Chrome", 20),
    ("desktop", "Windows 11", "Edge", 8),
    ("desktop", "macOS 26", "Safari", 7),
    ("desktop", "Linux", "Firefox", 4),
    ("mobile", "Android 16", "Chrome", 30),
    ("mobile", "Android 16", "Firefox", 3),
    ("mobile", "iOS 26", "Safari", 21),
    ("tablet", "iPadOS 26", "Safari", 5),
    ("tablet", "Android 16", "Chrome", 2),
)
# CSS pixels of the visible page, most common first.
_VIEWPORTS: Final = {
    "desktop": ((1920, 945), (1536, 730), (1440, 789), (2560, 1315)),
    "mobile": ((390, 664), (412, 785), (360, 640), (430, 739)),
    "tablet": ((810, 1010), (1024, 1292), (800, 1128)),
}
_COUNTRIES: Final = ("DE", "FR", "NL", "IT", "ES", "PL", "SE", "AT", "GB", "US", "CA", "JP", "BR", "IN")
_COUNTRY_WEIGHTS: Final = (30, 14, 9, 8, 8, 7, 4, 4, 5, 5, 2, 2, 1, 1)
SHOP: Final = "https://shop.example"
_SITES: Final = (
    None,
    "https://search.example/",
    "https://social.example/",
    "https://prices.example/compare",
    "https://mail.example/newsletter",
)
_SITE_WEIGHTS: Final = (34, 38, 14, 8, 6)

T = TypeVar("T")


class Choice(Generic[T]):
    """A weighted choice that takes one ``random()`` and one bisection."""

    def __init__(self, items: Sequence[T], weights: Sequence[int]) -> None:
        self._items = tuple(items)
        self._bounds = list(accumulate(weights))
        self._total = self._bounds[-1]

    def draw(self, rng: Random) -> T:
        """Draw one item according to its weight."""
        return self._items[bisect_right(self._bounds, int(rng.random() * self._total))]


class Product(NamedTuple):
    """One product: its page, and its unit price in EUR, as a number and in cents."""

    product_id: str
    url: str
    price: Decimal
    price_cents: int


class DeviceModel(NamedTuple):
    """One device as in the events: the ``device`` value of each schema version."""

    type: str
    v1: dict[str, Any]
    v2: dict[str, Any]


class User(NamedTuple):
    """One visitor: ids, country, and the devices in use (the second one is rare)."""

    user_id: str
    key: bytes
    country: str
    devices: tuple[DeviceModel, DeviceModel]


def zipf_weights(count: int, offset: int) -> list[int]:
    """Integer weights that decrease with the rank as 1/(rank + offset)."""
    return [1_000_000_000 // (rank + offset) for rank in range(1, count + 1)]


def products(rng: Random) -> dict[str, Choice[Product]]:
    """The products of every category, popular ones first."""
    shelves: dict[str, list[Product]] = {name: [] for name in CATEGORIES}
    category = Choice(CATEGORIES, _CATEGORY_WEIGHTS)
    for number in range(1, PRODUCTS + 1):
        name = category.draw(rng)
        material = _MATERIALS[int(rng.random() * len(_MATERIALS))]
        thing = _THINGS[name][int(rng.random() * len(_THINGS[name]))]
        # Squared: most are cheap, a few cost some hundred euros; prices end in 9 cents.
        cents = 199 + 10 * int(4_000 * rng.random() * rng.random() * rng.random())
        price = Decimal(cents).scaleb(-2)
        shelves[name].append(
            Product(f"p{number:04d}", f"/{name}/{material}-{thing}-{number:04d}", price, cents)
        )
    return {name: Choice(shelf, zipf_weights(len(shelf), 3)) for name, shelf in shelves.items()}


def categories() -> Choice[str]:
    """The categories, weighted by how often visitors enter them."""
    return Choice(CATEGORIES, _CATEGORY_WEIGHTS)


def landing_referrers() -> Choice[str | None]:
    """Where a session comes from; None for a typed address."""
    return Choice(_SITES, _SITE_WEIGHTS)


def users(rng: Random) -> Choice[User]:
    """All visitors, the most active first, who makes about 1.5 % of the sessions."""
    device = _devices()
    country = Choice(_COUNTRIES, _COUNTRY_WEIGHTS)
    people = []
    for number in range(1, USERS + 1):
        user_id = f"u{number:05d}"
        devices = (device.draw(rng), device.draw(rng))
        people.append(User(user_id, user_id.encode(), country.draw(rng), devices))
    return Choice(people, zipf_weights(USERS, 6))


def _devices() -> Choice[DeviceModel]:
    models: list[DeviceModel] = []
    weights: list[int] = []
    for kind, os, browser, weight in _DEVICES:
        for rank, (width, height) in enumerate(_VIEWPORTS[kind], start=1):
            v1 = {"type": kind, "os": os, "browser": browser}
            models.append(DeviceModel(kind, v1, {**v1, "viewport": {"width": width, "height": height}}))
            weights.append(weight * 100 // rank)
    return Choice(models, weights)
