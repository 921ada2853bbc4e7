"""`python -m odradek` is `odradek`."""

from odradek.cli.main import main

if __name__ == "__main__":
    main()
