"""The Python API: the workbench, its topics, and what they answer."""
