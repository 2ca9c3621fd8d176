"""The benchmark: ``make bench``."""
