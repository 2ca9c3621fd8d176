"""What a cell shows: results, bars of progress, errors of one line."""
