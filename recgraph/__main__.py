"""The `recgraph` command as `python -m recgraph`."""

from recgraph_command import main

if __name__ == "__main__":
    main(prog_name="python -m recgraph")
