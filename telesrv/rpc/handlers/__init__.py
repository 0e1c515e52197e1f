"""One module per namespace or noun: decode, resolve the peer, call one store method, return TL."""
