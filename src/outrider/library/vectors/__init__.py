"""One vector a record, all of one model: which model it is, the rows, the search, the index."""
