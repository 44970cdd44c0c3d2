"""The JavaScript client for browsers and Node, without dependencies or build step, and a page that uses it."""
