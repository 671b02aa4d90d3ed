"""What every room uses and what knows nothing of privacy: arguments, files, frames, caches."""
