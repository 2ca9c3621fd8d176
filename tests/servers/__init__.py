"""Servers as companies have them, on this machine: the product is tried against them."""
