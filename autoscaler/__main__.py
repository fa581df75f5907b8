"""`python -m autoscaler`."""

from autoscaler.app import main

if __name__ == "__main__":
    main()
