"""Structure of a text: headings, paragraphs, items, rows, code, and what never answers."""
