"""``python -m shuffledp``."""

from shuffledp.cli import main

if __name__ == "__main__":
    main()
