"""One admin client, and how it asks: waits, repeats, and the explanation of a failure."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors, explain_silence
from tabletopic_kernel.clients.kafka.idle_clients import IDLE_CLIENTS
from tabletopic_kernel.clients.kafka.librdkafka import make_admin
from tabletopic_kernel.clients.login_gate import LoginGate
from tabletopic_kernel.model.errors import BROKER, ActionNeededError, RetryableError

TIMEOUT_S = 10.0
RECONNECT_S = 2.0
_AGAIN_S = 0.1
# A refused login or certificate is known within a second; requests alone would take their whole timeout,
# while librdkafka logs in again up to 20 times a second, despite reconnect.backoff.max.ms.
_FIRST_LOOKS_S, _LOOK_S = (0.1, 0.2, 0.4, 0.8), 0.05


class Connection:
    """To one cluster, for any thread."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.address = self.properties.get("bootstrap.servers", "")
        self._errors = ConnectionErrors()
        self._gate = LoginGate()
        self._admin: AdminClient | None = make_admin(properties, self._errors)
        self._lock = threading.Lock()  # guards _admin and _errors
        self._renewing = threading.Lock()
        self._worn_out: list[AdminClient] = []
        self._renewed_s = float("-inf")
        IDLE_CLIENTS.add(self)

    @property
    def admin(self) -> AdminClient:
        """The client; LoginRefusedError is raised for a minute after the login was refused.

        Do not store the client: a stored traceback would keep it alive, and it would keep logging in.
        """
        with self._lock:
            self._gate.check()
            if self._admin is None:
                self._errors = ConnectionErrors()
                self._admin = make_admin(self.properties, self._errors)
            return self._admin

    def ask(
        self,
        request: Callable[[], Any],
        *,
        passing: Collection[int] = (),
        within_s: float | None = None,
        expected: Collection[int] = (),
    ) -> Any:
        """The response to a request, which is repeated once if only the connection or the client failed.

        ``passing`` codes are repeated for ``within_s``; an ``expected`` one is raised as KafkaException,
        others as RetryableError or ActionNeededError.
        """
        deadline = time.monotonic() + (TIMEOUT_S if within_s is None else within_s)
        is_repeated = False
        while True:
            try:
                return self.result(request())
            except KafkaException as error:
                code = error.args[0].code()
                if code not in passing or time.monotonic() > deadline:
                    if is_repeated or not self.may_ask_again(error):
                        if code in expected:
                            raise
                        raise self.explain(error) from error
                    is_repeated = True
            time.sleep(_AGAIN_S)

    def metadata(self) -> Any:
        """All topics and brokers; fails early if the login is refused."""
        for look_s in _FIRST_LOOKS_S:
            with contextlib.suppress(KafkaException):
                return self.listed(min(look_s, TIMEOUT_S))
            self.admin.poll(0)  # runs the callback of errors
            if self._errors.is_hopeless():
                raise self._explain("it refuses all logins")
        try:
            return self.listed(TIMEOUT_S)
        except KafkaException as error:
            raise self.explain(error) from error

    def listed(self, timeout_s: float) -> Any:
        """All topics and brokers; raises KafkaException."""
        answer = self.admin.list_topics(timeout=timeout_s)
        self._errors.forget()
        return answer

    def result(self, answer: Any) -> Any:
        """The response to a request; fails early if no broker admits the client. Raises KafkaException."""
        while isinstance(answer, Future):
            try:
                answer = answer.result(timeout=_LOOK_S)
                self._errors.forget()
            except NotDoneError:
                self.admin.poll(0)
                if self._errors.is_hopeless():
                    raise self._explain("it refuses all logins") from None
        return answer

    def may_ask_again(self, error: KafkaException) -> bool:
        """Whether to repeat a request: an idle connection was closed, or a new client gets a response."""
        code = error.args[0].code()
        return code == KafkaError._TRANSPORT or (
            code == KafkaError._TIMED_OUT and self._renew_unless_refused()
        )

    def explain(self, error: KafkaException) -> RetryableError | ActionNeededError:
        """The error of a request, with its remedy."""
        problem = error.args[0]
        if problem.code() == KafkaError._TIMED_OUT:
            self._renew_unless_refused()
        else:
            self.admin.poll(0)  # runs the callback of errors
        name = problem.name() if hasattr(problem, "name") else ""
        if "AUTHORIZATION" in name or "AUTHENTICATION" in name:
            return ActionNeededError(f"the broker at {self.address} does not allow it: {problem.str()}")
        message = f"{problem.str()}{name}" if problem.str().endswith(": ") else problem.str()
        if problem.code() > 0:  # the broker's own; librdkafka's are negative
            return RetryableError(
                f"the broker at {self.address} does not respond ({message}); see its log", system=BROKER
            )
        return self._explain(message)

    def _explain(self, request: str) -> RetryableError:
        error = explain_silence(self.properties, self._errors, request)
        self.rest(error)
        return error

    def rest(self, error: Exception) -> None:
        """Do not log in for a minute if ``error``, of any client of the cluster, is a refusal."""
        self._gate.note(error)
        if not self._gate.is_open:
            with self._lock:
                self._admin = None

    def close_if_refused(self) -> None:
        """Rest as after a refused request, although there was none; see ``idle_clients``."""
        with self._lock, contextlib.suppress(KafkaException):
            if self._admin is None:  # resting already; old errors must not prolong that
                return
            self._admin.poll(0)
        if self._errors.is_hopeless():
            self._explain("it refuses all logins")

    def _renew_unless_refused(self) -> bool:
        self.admin.poll(0)  # runs the callback of errors
        return self._errors.refused() is None and self.renew(self.admin)

    def renew(self, worn_out: AdminClient) -> bool:
        """Replace the client if the broker responds to a new one; returns whether there is a new client.

        A client that existed while the broker hung never finds a controller again, although it gets metadata.
        It is kept: releasing it may abort the process.
        """
        with self._renewing:
            # Requests of the old client time out until then; each of them asks for a new client.
            is_new = time.monotonic() - self._renewed_s < TIMEOUT_S
            if self._admin is not worn_out or is_new:
                return True
            fresh = make_admin(self.properties, self._errors)
            with contextlib.suppress(KafkaException):
                fresh.list_topics(timeout=RECONNECT_S)
                self._worn_out.append(worn_out)
                self._admin, self._renewed_s = fresh, time.monotonic()
                return True
            return False
