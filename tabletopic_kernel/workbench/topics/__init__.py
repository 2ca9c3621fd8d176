"""One table topic: its orders, requests and status."""
