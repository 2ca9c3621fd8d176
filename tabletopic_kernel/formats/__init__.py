"""From the bytes of records to Arrow columns: a folder per format, one decoder interface for all."""

from typing import Final

# The registry's schema types, and Kafka Connect's in JSON, and the modules whose ``make(schema)`` makes their
# decoders. A new format is a folder here, and a line.
FORMATS: Final[dict[str, str]] = {
    "AVRO": "tabletopic_kernel.formats.avro.decoder",
    "PROTOBUF": "tabletopic_kernel.formats.protobuf.decoder",
    "JSON": "tabletopic_kernel.formats.json.decoder",
    "CONNECT": "tabletopic_kernel.formats.connect",
}
