"""What the pages are functions of: read by a few threads, looked at by every page."""
