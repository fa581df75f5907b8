"""`python -m raylet_agent`."""

from raylet_agent.app import main

if __name__ == "__main__":
    main()
