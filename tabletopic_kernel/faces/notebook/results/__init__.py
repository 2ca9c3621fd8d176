"""Results of queries in notebooks: kept as Arrow in the kernel, shown page by page as a grid."""
