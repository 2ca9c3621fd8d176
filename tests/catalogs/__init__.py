"""The catalogs and object stores that companies use, each run and used by the product's own code."""
