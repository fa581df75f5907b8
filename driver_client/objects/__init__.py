"""Objects as this process holds them: their bytes and their state; locks, but no I/O."""
