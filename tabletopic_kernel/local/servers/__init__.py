"""The servers of the local stack: how they are set up, started, and asked whether they respond."""
