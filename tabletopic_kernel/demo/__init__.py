"""The demo: a topic becomes a table while its schema changes and its host is killed; then the proof."""
