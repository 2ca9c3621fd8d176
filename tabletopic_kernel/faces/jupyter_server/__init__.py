"""The Jupyter server extension: REST for the sidebar, the background host, the dashboard behind a login."""
