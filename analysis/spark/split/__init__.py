"""One capture read by many tasks: each decodes a split of its bytes, and connections go on from split to split."""
