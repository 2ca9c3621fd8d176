"""What a host shows to monitoring: Prometheus metrics, and whether it lives and is ready."""
