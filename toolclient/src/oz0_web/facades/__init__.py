"""The façades: each gives one system's exact names, defaults and result shapes over the one engine."""
