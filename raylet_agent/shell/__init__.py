"""What carries the agent's decisions out: sessions, worker processes, the fork server, output."""
