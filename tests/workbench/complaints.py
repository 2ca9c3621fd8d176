"""The errors of loading wrong settings."""

from __future__ import annotations

from typing import Any

import pytest

from tabletopic_kernel.model.errors import SettingsError


def complaint(load, *args: Any, **kwargs: Any) -> str:  # type: ignore[no-untyped-def]
    """The message of the error that loading raises."""
    with pytest.raises(SettingsError) as caught:
        load(*args, **kwargs)
    return str(caught.value)
