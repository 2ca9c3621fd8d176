"""One foreign system a file, with its errors sorted: wait, act, or a bug of ours."""
