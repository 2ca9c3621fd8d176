"""The Jupyter server's side: REST for the sidebar, the headless host, the dashboard behind a login."""
