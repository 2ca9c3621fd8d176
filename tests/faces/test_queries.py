"""People's queries: the history is bounded, and what is saved stays."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tabletopic_kernel.faces import queries
from tabletopic_kernel.faces.queries import Queries, queries_grid
from tabletopic_kernel.model.errors import RetryableError, UsageError


def test_the_last_queries_are_kept_once_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first; the same text again gives way to its newest run; a word chooses; the oldest go."""
    kept = Queries(tmp_path / "state")
    assert kept.history() == []
    for cell in ("%lake SELECT 1", "%lake FROM Clicks", "%lake SELECT 1", "%lake FROM 'é%_'"):
        kept.ran(cell, failed=cell.endswith("'"))
    newest_first = ["%lake FROM 'é%_'", "%lake SELECT 1", "%lake FROM Clicks"]
    assert [each.cell for each in kept.history()] == newest_first
    assert [each.cell for each in kept.history("clicks")] == ["%lake FROM Clicks"]
    assert [each.failed for each in kept.history("%_")] == [True]
    assert "failed" in queries_grid(kept.history()).html()
    monkeypatch.setattr(queries, "_KEPT", 2)
    kept.ran("%lake SELECT 2", failed=False)
    assert [each.cell for each in kept.history()] == ["%lake SELECT 2", "%lake FROM 'é%_'"]
    kept.ran("x" * 200_000, failed=False)
    assert len(kept.history()) == 2
    kept.forget()
    assert kept.history() == []


def test_saved_queries_have_a_name(tmp_path: Path) -> None:
    """The newest of a name counts; what is no name, or not there, is said."""
    kept = Queries(tmp_path)
    kept.save(" busy ", "%%lake\nSELECT 1")
    kept.save("busy", "%%lake\nSELECT 2")
    kept.save("Alle Käufe/Tag", "%%lake\nFROM buys")
    kept.forget()
    assert [(each.name, each.cell[-1]) for each in kept.saved()] == [("Alle Käufe/Tag", "s"), ("busy", "2")]
    for name, cell in (("", "SELECT 1"), ("x" * 101, "SELECT 1"), ("a\nb", "SELECT 1"), ("a", " ")):
        with pytest.raises(UsageError):
            kept.save(name, cell)
    kept.delete("busy")
    with pytest.raises(UsageError, match="no query is saved as 'busy'"):
        kept.delete("busy")


def test_many_write_at_once_and_nobody_else_reads(tmp_path: Path) -> None:
    """Kernels share the file, which is its owner's alone."""
    threads = [
        threading.Thread(target=Queries(tmp_path).ran, args=(f"%lake SELECT {n}",), kwargs={"failed": False})
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Queries(tmp_path).history()) == 8
    assert (tmp_path / "queries.db").stat().st_mode & 0o077 == 0


def test_a_broken_file_fails_no_query(tmp_path: Path) -> None:
    """It is told where somebody asks for it."""
    (tmp_path / "queries.db").write_text("no database" * 100)
    kept = Queries(tmp_path)
    kept.ran("%lake SELECT 1", failed=False)
    for ask in (kept.history, kept.saved, kept.forget):
        with pytest.raises(RetryableError, match="remove the file"):
            ask()
