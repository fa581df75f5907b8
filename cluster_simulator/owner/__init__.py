"""A small owner: gangs of actors and plain tasks, with the real lifecycle and task pool inside."""
