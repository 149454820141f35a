"""When two records are one work: identifiers and titles in one form, so that equal things compare equal."""
