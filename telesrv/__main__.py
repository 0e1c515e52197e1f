"""`python -m telesrv` is the command `telesrv`."""

from telesrv.app import main

if __name__ == "__main__":
    main()
