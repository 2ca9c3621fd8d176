"""The two Kafka topics of the hosts: desired state and events."""
