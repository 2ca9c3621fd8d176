"""Checks that this machine and the servers have what the workbench needs."""
