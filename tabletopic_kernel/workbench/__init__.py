"""The Python API: the workbench, its topics, and their results."""
