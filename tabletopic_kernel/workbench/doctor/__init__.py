"""Whether this machine and the servers have what the workbench needs, check by check."""
