"""The `recgraph` command as a part of the package: `python -m recgraph.cli`, and programs that call `main`."""

from recgraph_command import main as main

if __name__ == "__main__":
    main()
