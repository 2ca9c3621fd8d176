"""Maintenance of a topic's tables: compaction of small files, expiry of old snapshots."""
