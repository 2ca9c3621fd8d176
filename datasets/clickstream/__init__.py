"""A seeded clickstream: events, schemas by version, tallies."""
