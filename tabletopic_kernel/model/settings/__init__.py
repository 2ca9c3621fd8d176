"""What can be set, where, and what a setting means."""
