"""The Jupyter server extension: REST for the sidebar, the headless host, the dashboard behind a login."""
