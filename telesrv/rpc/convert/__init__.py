"""Pure functions between the domain's records and TL; none of them reads the store."""
