"""The draws as an `xarray.DataTree`: what is in it, whether it can be used, what follows."""
