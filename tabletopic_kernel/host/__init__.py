"""The process that runs topics: a coordinator for each, ownership, plans and reports."""
