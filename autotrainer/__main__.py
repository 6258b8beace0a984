"""`python -m autotrainer`."""

from autotrainer.cli import main

if __name__ == "__main__":
    main()
