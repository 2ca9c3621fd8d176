"""Faces inside Jupyter: magics and kernel for notebooks, an extension for the server."""
