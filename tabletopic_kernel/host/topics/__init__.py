"""The two Kafka topics of the hosts: what should run, and what happened."""
