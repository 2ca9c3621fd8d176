"""The user interfaces: terminal, notebook, JupyterLab, dashboard."""
