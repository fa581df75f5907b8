"""What carries an owner's decisions out: the I/O thread, peer and lease sessions, execution."""
