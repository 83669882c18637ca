"""A web client for agents that resolves nothing: every request goes by name through the node's egress proxy."""
