"""TL: the schema of every layer, its generated classes, and their bytes."""
