"""`python -m oomctl`: the name that systemd's own `oomctl` cannot shadow."""

from oomctl.cli.app import main

if __name__ == "__main__":
    main()
