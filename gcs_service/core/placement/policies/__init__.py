"""One placement rule a file: a `Task` in, a `Choice` or None out. No policy changes the index."""
