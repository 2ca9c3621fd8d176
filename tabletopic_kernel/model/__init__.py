"""What things are, and the rules between them: no I/O, no clock, no threads."""
