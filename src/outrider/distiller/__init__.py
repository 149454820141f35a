"""Only the sentences that answer: units of texts, their relevance to a query, which of them to keep, and a promise about it."""
