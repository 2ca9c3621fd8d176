"""Texts for generated records of all formats: every plane of Unicode, and the edges of UTF-8's lengths."""

from __future__ import annotations

from hypothesis import strategies as st

_PLANES = [chr(plane << 16 | 0x100) for plane in range(17)]
_EDGES = "\x00\x1f\x7f\x80\u07ff\u0800\ud7ff\ue000\ufeff\ufffd\uffff\U00010000\U0010ffff\"\\{}[],:'\n"
TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.text(st.sampled_from([*_PLANES, *_EDGES]), max_size=6),
)
