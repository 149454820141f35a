"""Words, stems and sentences: what ranking, retrieval and identity agree on about text."""
