"""The process that runs topics: one coordinator for each, and what it owns, plans and reports."""
