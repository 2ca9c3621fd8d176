"""Where tables lie: files, and whether they can be written."""
