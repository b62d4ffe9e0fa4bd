"""Model files and exports to other runtimes."""
