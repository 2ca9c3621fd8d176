"""What the catalogs and the registry have, table topics or not: only metadata is read."""
