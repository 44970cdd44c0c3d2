"""The engines that run a collection: in this process, or on Spark."""
