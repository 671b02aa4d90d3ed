"""Files that people write, and files that noiseaware wrote: models, tables of cells, posteriors."""
