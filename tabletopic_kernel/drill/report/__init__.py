"""The report of a drill: a page with the lag curve, tables for the terminal, a page of the documentation."""
