"""Words, stems, sentences, encodings and cleaning of text."""
