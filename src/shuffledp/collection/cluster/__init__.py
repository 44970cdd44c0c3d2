"""Collections over data frames of Spark: who a row is, its message, an exact shuffle, and what is written where."""
