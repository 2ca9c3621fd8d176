"""From the bytes of records to Arrow columns: a folder for each format, one shape of decoder for all."""
