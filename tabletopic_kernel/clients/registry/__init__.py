"""The schema registry: its client, the validation of its responses, and its errors."""
