"""Ranges of a topic's offsets as Arrow record batches: by librdkafka and a C function, or by ``Consumer``."""
