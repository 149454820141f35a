"""Web pages: search engines, the browser, polite fetching, and parsing"""
