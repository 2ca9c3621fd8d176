"""Routes of the REST interface that do more than run an operation and return its result."""

from tabletopic_kernel.faces.jupyter_server.routes import patterns, profiles, queries, servers, topics
from tabletopic_kernel.faces.jupyter_server.routes.own import OWN_ROUTES
from tabletopic_kernel.faces.jupyter_server.routes.topics import Settings

__all__ = ["OWN_ROUTES", "Settings", "patterns", "profiles", "queries", "servers", "topics"]
