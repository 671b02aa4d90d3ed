"""Running several chains: seeds, workers, Ctrl-C and checkpoints."""
