"""The contract between the proxy and its clients: names, addresses, targets, rules, reasons and the header. No I/O."""
