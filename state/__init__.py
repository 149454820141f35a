"""What everyone may know: requests, records, hits, failures, ports. Imports nothing else of ours."""
