"""The outside world and the library, each behind the same small protocol: a query in, ranked records out. One adapter a file."""
