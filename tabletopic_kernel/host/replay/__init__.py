"""Dead letters once more through today's settings."""
