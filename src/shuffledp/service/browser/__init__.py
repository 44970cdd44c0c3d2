"""What pages run: a module without dependencies or build step, and a page that takes part in a campaign with it."""
