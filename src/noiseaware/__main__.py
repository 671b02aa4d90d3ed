"""`python -m noiseaware`, the same as the command `noiseaware`."""

from noiseaware.cli import main

if __name__ == "__main__":
    main()
