"""The live dashboard's process: one reader of the control topic, and a server for the pages.

The pages themselves are in ``dashboards/``, shipped as ``tabletopic_kernel/_dashboards``.
"""
