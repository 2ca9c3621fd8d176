"""The embedded stack: JDK, broker, registry."""
