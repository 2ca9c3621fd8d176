"""A consumer by the C API of the librdkafka that ``confluent_kafka`` links; C copies its records to Arrow."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Mapping
from ctypes import CFUNCTYPE, byref, c_char_p, c_int, c_int64, c_void_p
from typing import Any, Final

import confluent_kafka.cimpl
from confluent_kafka import KafkaError, KafkaException

from tabletopic_kernel.clients.kafka.connection_errors import ConnectionErrors
from tabletopic_kernel.clients.kafka.librdkafka import check_addressed
from tabletopic_kernel.clients.kafka.ranges.consumer import DEFAULTS, REQUIRED, Pulled
from tabletopic_kernel.clients.kafka.ranges.copying import Copier, take_function
from tabletopic_kernel.model.errors import SettingsError

_CONSUMER, _ERROR_SIZE = 1, 512
_WITHOUT_CLOSE: Final = 0x8  # RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE: there is no group to leave
_ERROR_CALLBACK: Any = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
_COPIERS: Final = {
    "consume": "rd_kafka_consume_batch_queue",
    "timestamp": "rd_kafka_message_timestamp",
    "headers": "rd_kafka_message_headers",
    "header": "rd_kafka_header_get_all",
    "destroy": "rd_kafka_message_destroy",
}


@functools.cache
def _librdkafka() -> Any:
    """librdkafka's functions: a look-up in a library goes on in those that it is linked with."""
    library = ctypes.CDLL(confluent_kafka.cimpl.__file__)
    for name in ("conf_new", "new", "queue_get_consumer", "topic_partition_list_new", "incremental_unassign"):
        getattr(library, f"rd_kafka_{name}").restype = c_void_p
    return library


class NativeConsumer:
    """By C; see ``RangeConsumer``."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Raises SettingsError if librdkafka refuses the properties, OSError without the C function."""
        self.errors = ConnectionErrors()
        self._kafka, take = _librdkafka(), take_function()
        # librdkafka calls it from ``consume``, in the thread that pulls.
        self._on_error = _ERROR_CALLBACK(
            lambda _, code, text, __: self.errors(KafkaError(code, (text or b"").decode(errors="replace")))
        )
        self._client = c_void_p(self._make({**DEFAULTS, **properties, **REQUIRED, "log_level": "0"}))
        self._kafka.rd_kafka_poll_set_consumer(self._client)
        self._queue = c_void_p(self._kafka.rd_kafka_queue_get_consumer(self._client))
        functions = {name: getattr(self._kafka, function) for name, function in _COPIERS.items()}
        self._copier = Copier(functions, self._queue, take)
        self._topic = b""

    def _make(self, properties: Mapping[str, str]) -> int:
        check_addressed(properties)
        text = ctypes.create_string_buffer(_ERROR_SIZE)
        settings = c_void_p(self._kafka.rd_kafka_conf_new())
        refused = any(
            self._kafka.rd_kafka_conf_set(settings, key.encode(), str(value).encode(), text, _ERROR_SIZE)
            for key, value in properties.items()
        )
        self._kafka.rd_kafka_conf_set_error_cb(settings, self._on_error)
        client = None if refused else self._kafka.rd_kafka_new(_CONSUMER, settings, text, _ERROR_SIZE)
        if not client:
            self._kafka.rd_kafka_conf_destroy(settings)
            raise SettingsError(f"[kafka] {text.value.decode(errors='replace')}")
        return int(client)

    def begin(self, topic: str, starts: Mapping[int, int], ends: Mapping[int, int], *, headers: bool) -> None:
        self._topic = topic.encode()
        self._copier.begin(starts, ends, headers=headers)
        with _partitions(self._kafka, self._topic, starts) as partitions:
            _check(self._kafka.rd_kafka_assign(self._client, partitions))

    @property
    def open(self) -> bool:
        return self._copier.open

    def firsts(self) -> dict[int, int]:
        return self._copier.firsts()

    def pull(self, timeout_s: float, *, flush: bool = False) -> Pulled:
        pulled = self._copier.pull(int(timeout_s * 1000), flush=flush)
        if (ended := self._copier.ended()) and self.open:
            with _partitions(self._kafka, self._topic, ended) as partitions:
                error = c_void_p(self._kafka.rd_kafka_incremental_unassign(self._client, partitions))
            if error:
                code = self._kafka.rd_kafka_error_code(error)
                self._kafka.rd_kafka_error_destroy(error)
                _check(code)
        return pulled

    def log_start(self, topic: str, partition: int, timeout_s: float) -> int:
        low, high = c_int64(), c_int64()
        ask = self._kafka.rd_kafka_query_watermark_offsets
        place = (self._client, topic.encode(), partition)
        _check(ask(*place, byref(low), byref(high), int(timeout_s * 1000)))
        return low.value

    def end(self) -> None:
        self._copier.drop()
        _check(self._kafka.rd_kafka_assign(self._client, None))

    def close(self) -> None:
        self._copier.drop()
        self._kafka.rd_kafka_queue_destroy(self._queue)
        self._kafka.rd_kafka_destroy_flags(self._client, _WITHOUT_CLOSE)


def _check(code: int) -> None:
    if code:
        raise KafkaException(KafkaError(code))


@contextlib.contextmanager
def _partitions(kafka: Any, topic: bytes, offsets: Mapping[int, int]) -> Iterator[c_void_p]:
    partitions = c_void_p(kafka.rd_kafka_topic_partition_list_new(len(offsets)))
    for partition, offset in offsets.items():
        kafka.rd_kafka_topic_partition_list_add(partitions, topic, partition)
        kafka.rd_kafka_topic_partition_list_set_offset(partitions, topic, partition, c_int64(offset))
    try:
        yield partitions
    finally:
        kafka.rd_kafka_topic_partition_list_destroy(partitions)
