"""The shuffler as a service: sealed messages, campaigns, a server that mixes them, and its clients."""
