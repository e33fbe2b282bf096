"""What a table shows and how: sets of columns, the order of rows, a pager."""
