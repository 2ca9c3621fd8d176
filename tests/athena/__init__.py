"""The engine athena: PyAthena asks a stand-in for Athena, in which a Trino answers."""
