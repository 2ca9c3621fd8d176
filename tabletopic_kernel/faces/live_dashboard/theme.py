"""Colours and type of the pages, light and dark, and the beginning of a page.

A page begins as plain HTML, visible before four megabytes of scripts are loaded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Palette:
    """One theme. ``series`` are colours distinguishable with any kind of colour vision.

    Text has a contrast of at least 4.5 : 1 on ``page`` and on ``card``, lines of at least 3 : 1.
    """

    name: str
    page: str
    card: str
    text: str
    muted: str
    grid: str
    link: str
    good: str
    warn: str
    bad: str
    series: tuple[str, ...]


# After Okabe and Ito; each theme has the colours that stand out on its background.
LIGHT = Palette(
    name="default",
    page="#f4f5f7",
    card="#ffffff",
    text="#1b1f24",
    muted="#57606a",
    grid="#dfe3e8",
    link="#0550ae",
    good="#116329",
    warn="#7d4e00",
    bad="#b42318",
    series=("#0072b2", "#d55e00", "#00855f", "#b0518a", "#8a6100", "#3b8fc4", "#5b3fb5", "#4d4d4d"),
)
DARK = Palette(
    name="dark",
    page="#111418",
    card="#1b2027",
    text="#e6e9ed",
    muted="#a3adb8",
    grid="#363d47",
    link="#7cb7ff",
    good="#6fd08c",
    warn="#f0b849",
    bad="#ff8f85",
    series=("#56b4e9", "#e69f00", "#2fc49b", "#e58fc1", "#f0e442", "#ff8a5c", "#b3a5ff", "#bdbdbd"),
)
# In addition to colour, lines differ by their dashes.
DASHES = ("solid", "solid", "dashed", "dashed", "dotted", "dotted", "dotdash", "dashdot")


def palette(name: str) -> Palette:
    """The theme with this name; light for any other."""
    return DARK if name == DARK.name else LIGHT


def page_css(colours: Palette) -> str:
    """Style of the page around the components."""
    return f"""
html, body {{ background: {colours.page}; color: {colours.text}; height: auto; min-height: 100%;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; font-size: 14px;
  color-scheme: {"dark" if colours.name == DARK.name else "light"}; }}
body {{ padding: 0 12px 24px 12px; }}
"""


# A shadow at the edge beyond which columns are out of sight; the covers scroll with the table.
_EDGES = """
  background: linear-gradient(to right, %s 50%%, transparent) left / 24px 100%% no-repeat local,
    linear-gradient(to left, %s 50%%, transparent) right / 24px 100%% no-repeat local,
    linear-gradient(to right, #8888, transparent) left / 10px 100%% no-repeat scroll,
    linear-gradient(to left, #8888, transparent) right / 10px 100%% no-repeat scroll;"""


def part_css(colours: Palette) -> str:
    """Style of our own HTML inside a component, which the page's styles do not reach."""
    return f"""
:host {{ color: {colours.text}; font-family: inherit; font-size: 14px; line-height: 1.4; }}
h1 {{ font-size: 20px; margin: 12px 0 0 0; }}
h2 {{ font-size: 14px; margin: 0; font-weight: 600; }}
p {{ margin: 2px 0 0 0; }}
a {{ color: {colours.link}; }}
a:focus-visible {{ outline: 2px solid {colours.link}; outline-offset: 2px; }}
p.after {{ margin: 2px 0 10px 0; }}
.muted {{ color: {colours.muted}; }}
.good {{ color: {colours.good}; }} .warn {{ color: {colours.warn}; }} .bad {{ color: {colours.bad}; }}
.good, .warn, .bad {{ font-weight: 600; }}
.note {{ border-left: 4px solid {colours.warn}; background: {colours.card}; padding: 8px 12px; margin: 8px 0;
  overflow-wrap: anywhere; white-space: pre-line; }}
.note.is-bad {{ border-color: {colours.bad}; }} .note.is-info {{ border-color: {colours.link}; }}
dl {{ display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0; }}
dl > div {{ flex: 1 1 124px; box-sizing: border-box; background: {colours.card};
  border: 1px solid {colours.grid}; border-radius: 6px; padding: 6px 10px; }}
dl > div.wide {{ flex-basis: 175px; }}
dt {{ color: {colours.muted}; font-size: 12px; }}
dd {{ margin: 0; font-size: 16px; font-weight: 600; overflow-wrap: anywhere;
  font-variant-numeric: tabular-nums; }}
dd.id {{ font-size: 13px; }}
dd small {{ display: block; font-size: 12px; font-weight: 400; color: {colours.muted}; }}
.scroll {{ overflow-x: auto; max-height: 340px; overflow-y: auto; {_EDGES % (colours.card, colours.card)} }}
table {{ border-collapse: collapse; width: 100%; font-size: 13px; }}
th {{ text-align: left; color: {colours.muted}; font-weight: 600; position: sticky; top: 0;
  background: {colours.card}; }}
th, td {{ padding: 3px 12px 3px 0; vertical-align: top; border-bottom: 1px solid {colours.grid};
  white-space: nowrap; }}
td.right, th.right {{ text-align: right; font-variant-numeric: tabular-nums; }}
td.long {{ white-space: pre-line; overflow-wrap: anywhere; min-width: 200px; width: 100%; }}
.keys {{ font-size: 12px; display: flex; flex-wrap: wrap; column-gap: 6px; }}
.keys .name {{ margin-right: 10px; overflow-wrap: anywhere; }}
.bar {{ height: 8px; background: {colours.series[1]}; border-radius: 2px; min-width: 2px; }}
code {{ background: {colours.page}; padding: 1px 4px; border-radius: 3px; }}
"""


def card_styles(colours: Palette, width_px: int | None) -> dict[str, str]:
    """Inline style of a card; with ``width_px`` cards stand side by side while each has that much room."""
    card = {
        "background": colours.card,
        "border": f"1px solid {colours.grid}",
        "border-radius": "6px",
        "padding": "10px 12px",
        "box-sizing": "border-box",
        "overflow": "hidden",
    }
    beside = {"flex": f"1 1 {width_px}px", "min-width": "min(100%, 280px)"}
    # Bokeh sets a height of its own, which would keep cards of one row from stretching alike.
    beside |= {"align-self": "stretch", "height": "auto"}
    return {**card, **(beside if width_px else {"width": "100%"})}


def table_css(colours: Palette) -> str:
    """Style of the table of topics, in addition to ``part_css``."""
    return f"""
.scroll {{ max-height: 560px; background-color: {colours.card}; border: 1px solid {colours.grid};
  border-radius: 6px; }}
th, td {{ padding: 5px 10px; white-space: nowrap; }}
thead th {{ z-index: 2; padding: 0; }}
tbody th {{ position: sticky; left: 0; top: auto; z-index: 1; font-weight: 400;
  white-space: normal; overflow-wrap: anywhere; min-width: 120px; max-width: 38vw; }}
tr.has-below > * {{ border-bottom: 0; padding-bottom: 0; }}
tr.below td {{ white-space: pre-line; overflow-wrap: anywhere; padding-top: 1px; }}
tr.below div {{ position: sticky; left: 10px; max-width: min(110ch, calc(100vw - 60px)); }}
th button {{ all: unset; cursor: pointer; padding: 6px 10px; display: block; width: 100%;
  box-sizing: border-box; font-weight: 600; }}
th button:hover {{ color: {colours.text}; }}
th button:focus-visible {{ outline: 2px solid {colours.link}; outline-offset: -2px; }}
th.right button {{ text-align: right; }}
th[aria-sort="ascending"] button::after {{ content: " ▲"; }}
th[aria-sort="descending"] button::after {{ content: " ▼"; }}
tbody tr:not(.below):hover > * {{ background: {colours.page}; }}
"""


# Class of the page's outermost component, once it has its content.
MADE = "made"
# Scripts and their styles come last: a browser paints nothing below those that it still loads. The beginning
# is removed when the components exist: hidden, it would make a text search find everything twice.
_TEMPLATE = """
{% block title %}{{ page_title | e }}{% endblock %}
{% block css_resources %}
<style>{{ page_style }}</style>
{% endblock %}
{% block js_resources %}{% endblock %}
{% block contents %}
<main>
<div class="first-look"><template shadowrootmode="open"><style>{{ part_style }}</style>
{{ opening }}
<p class="muted" role="status">Drawing the plots …</p>
</template></div>
{{ super() }}
</main>
<script>
new MutationObserver((_, watch) => {
  if (document.querySelector('main > [data-root-id] > .MADE')) {
    document.querySelector('.first-look').remove();
    watch.disconnect();
  }
}).observe(document.querySelector('main'), { childList: true, subtree: true, attributeFilter: ['class'] });
</script>
{{ bokeh_css }}
{{ bokeh_js }}
{% endblock %}
""".replace("MADE", MADE)


def first_look(document: Any, title: str, opening: str, colours: Palette) -> None:
    """Give the page of a Bokeh document this title, which is text, and let it begin with this HTML."""
    document.template = _TEMPLATE
    document.template_variables.update(
        page_title=title,
        opening=opening,
        page_style=page_css(colours),
        part_style=part_css(colours),
        apple_icon="",  # Panel would have the browser request the page again, as an icon
        # Panel expects it beside the page, where a server with one page at its root has none.
        app_favicon="static/extensions/panel/images/favicon.ico",
    )
