"""Nouns that two or more parts share. Pure, except for the room `transport`."""
