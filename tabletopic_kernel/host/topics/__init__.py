"""The hosts' two Kafka topics: ``settings_topic`` has the desired state, ``control_topic`` the events."""
