"""Removes names from other programs' messages: a name may contain a word that identifies a cause."""

import re
from typing import Final

# Quoted names, also of keys with an apostrophe, paths, and URLs. A word is tried once, at its start: a page
# in a message may be one word of 100,000 characters.
_NAMES: Final = re.compile(r"""(?<!\w)'.*?'(?!\w)|"[^"\n]*"|(?<![^\s'"])[^\s/'"]*+/\S*""")


def without_names(text: str) -> str:
    """A message with '' for each name.

    >>> without_names("Cannot open '/lake/http_requests': read-only, see https://kms/x")
    "Cannot open '': read-only, see ''"
    """
    return _NAMES.sub("''", text)
