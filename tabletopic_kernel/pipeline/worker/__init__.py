"""The streaming query of one topic, and its processes."""
