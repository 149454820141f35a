"""Command line, HTTP server, MCP server and web page: parse input, call a use case, render."""
