"""What a page shows at once: its beginning as plain HTML, before four megabytes of scripts are there."""

from __future__ import annotations

from typing import Any

from tabletopic_kernel.faces.live_dashboard.parts.theme import Palette, page_css, part_css

# Class of the page's outermost component, as soon as that has its content.
MADE = "made"
# Scripts and their styles come last, as a browser paints nothing below those that it still waits for.
# The beginning has the style of a component, and is taken away when the components are there: were it hidden,
# whoever looks for a text would find it twice.
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
    """Let the page of a Bokeh document have this title, which is text, and begin with this HTML."""
    document.template = _TEMPLATE
    document.template_variables.update(
        page_title=title,
        opening=opening,
        page_style=page_css(colours),
        part_style=part_css(colours),
        apple_icon="",  # Panel would have the browser ask for the page again, as an icon
        # Panel looks for it beside the page, where a server with one page at its root has none.
        app_favicon="static/extensions/panel/images/favicon.ico",
    )
