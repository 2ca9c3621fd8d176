"""Pure types and rules: no I/O, no clock, no threads."""
