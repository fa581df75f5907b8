"""`python -m raylet_agent.fleet`."""

from raylet_agent.fleet.app import main

if __name__ == "__main__":
    main()
