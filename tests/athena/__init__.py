"""The Athena engine: PyAthena queries a stand-in for Athena, backed by Trino."""
