"""Whatever people look at: terminal, notebook, JupyterLab, dashboard."""
