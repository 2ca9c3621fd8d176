"""Replays of dead letters in rounds, and their plan."""
