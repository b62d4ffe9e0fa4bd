"""The command line: one file per command. It parses, calls the library, and prints."""
