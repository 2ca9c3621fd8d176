"""Processes that outlive whoever started them, and what ends them when nobody is there any more."""
