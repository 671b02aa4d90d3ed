"""Tools for the whole package that do not involve privacy: arguments, files, frames, caches."""
