"""Training, evaluating, drawing and saving the models of `recgraph.models`: what the `recgraph` command does."""
