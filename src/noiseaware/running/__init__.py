"""Several chains: seeds, workers, Ctrl-C, and checkpoints that lose nothing."""
