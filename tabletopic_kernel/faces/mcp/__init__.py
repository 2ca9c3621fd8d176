"""Tools for assistants, by the Model Context Protocol: they read, and change nothing."""
