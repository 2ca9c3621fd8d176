"""stack.json."""

from pathlib import Path

import pytest

from tabletopic_kernel.local import state
from tabletopic_kernel.local.processes import ProcessId
from tabletopic_kernel.local.state import ServerRecord
from tabletopic_kernel.model.errors import StackError


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    """Ports, process and readiness; before the first start nothing; another version's is not guessed at."""
    assert state.load(tmp_path) == {}
    assert state.load(tmp_path / "none" / "deeper") == {}
    written = {
        "kafka": ServerRecord({"client": 1, "controller": 2}, ProcessId(7, 1790000000.25), ready=True),
        "registry": ServerRecord({"http": 3}),
        "watcher": ServerRecord(),
    }
    state.save(tmp_path, written)
    assert state.load(tmp_path) == written
    assert (tmp_path / "stack.json").stat().st_mode & 0o777 == 0o600
    (tmp_path / "stack.json").write_text('{"format": 2, "servers": {}}')
    with pytest.raises(StackError, match="another version"):
        state.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": 1}', '{"format": 1, "servers": {"kafka": {"x": 1}}}']
)
def test_a_damaged_file_says_what_to_do(text: str, tmp_path: Path) -> None:
    """Whatever is in the file, the answer names it and the remedy."""
    (tmp_path / "stack.json").write_text(text)
    with pytest.raises(StackError, match=r"stack.json is damaged .*remove it"):
        state.load(tmp_path)
