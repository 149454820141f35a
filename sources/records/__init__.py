"""What a service answered -> `Record`: only what it said. No network here."""
