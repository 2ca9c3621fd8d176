"""Servers as used by companies, on this machine: the product is tested against them."""
