"""The schema registry: its client, what its answers are worth, and what its errors mean."""
