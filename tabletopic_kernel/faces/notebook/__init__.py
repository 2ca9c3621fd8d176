"""Magics and kernel for notebooks."""
