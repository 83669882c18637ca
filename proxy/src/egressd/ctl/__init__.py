"""The command `egressctl`: edits list files and asks the daemon to load them. Knows no traffic."""
