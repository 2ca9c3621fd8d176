"""The host's thread of maintenance: one piece of work at a time, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tabletopic_kernel.host.maintenance.jobs import Job, Jobs


class Machine:
    """Starts threads when the test says so; ``done`` has what jobs did."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.threads: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.jobs = Jobs(lambda _, work: self.threads.append(work), lambda: self.now_ms)

    def run(self) -> int:
        """Run all threads; returns how many there were."""
        threads, self.threads = self.threads, []
        for thread in threads:
            thread()
        return len(threads)

    def job(self, name: str, *answers: Future[Any]) -> Job:
        """Waits for one answer after the other."""
        self.done.append(name)
        for answer in answers:
            try:
                self.done.append(f"{name} {(yield answer)}")
            except ValueError as error:
                self.done.append(f"{name} {error}")


def test_jobs_take_turns_while_others_wait_for_answers() -> None:
    """A job keeps the thread until it asks; errors of answers are raised in it."""
    machine, first, second = Machine(), Future[str](), Future[str]()
    machine.jobs.begin(machine.job("a", first, second))
    machine.jobs.begin(machine.job("b"))
    assert machine.run() == 1
    assert machine.done == ["a", "b"]
    first.set_exception(ValueError("no"))
    assert machine.run() == 1
    second.set_result("yes")
    machine.run()
    assert machine.done == ["a", "b", "a no", "a yes"]
    assert machine.run() == 0


def test_a_piece_that_hangs_keeps_others_for_ten_minutes() -> None:
    """Then another thread goes on beside it, so that every request is reported."""
    machine = Machine()

    def hangs() -> Job:
        machine.jobs.begin(machine.job("b"))
        machine.now_ms += 599_999
        machine.jobs.attend()
        assert machine.run() == 0
        machine.now_ms += 1
        machine.jobs.attend()
        assert machine.run() == 1
        assert machine.done == ["b"]
        yield from machine.job("a")

    machine.jobs.begin(hangs())
    machine.run()
    assert (machine.done, machine.threads) == (["b", "a"], [])


def test_the_rest_is_four_times_what_was_used() -> None:
    """That is a fifth of a core on average, whoever used it."""
    machine = Machine()
    machine.now_ms = 1_000
    machine.jobs.rest(0.5)
    machine.jobs.rest(0.25)
    assert machine.jobs.rests_until_ms == 4_000
