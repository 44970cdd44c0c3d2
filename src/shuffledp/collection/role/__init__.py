"""The three roles of a collection, each on its own machine, over files of messages."""
