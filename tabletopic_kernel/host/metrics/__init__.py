"""What a host exposes to monitoring: Prometheus metrics, liveness and readiness."""
