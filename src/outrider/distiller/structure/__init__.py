"""Structure of a text: headings, paragraphs, list items, table rows, code, and what never answers."""
