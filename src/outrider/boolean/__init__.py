"""The exact Boolean language: PubMed's and Ovid's queries as trees, and which records a tree matches. `docs/reference/boolean.md`."""
