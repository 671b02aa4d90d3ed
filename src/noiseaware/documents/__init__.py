"""Reading and writing of documents: model files, tables of cells, saved posteriors."""
