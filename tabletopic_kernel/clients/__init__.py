"""One external system per module, with its errors classified: wait, act, or a bug."""
