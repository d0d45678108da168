"""Flow control: bytes sent, arrived and acknowledged, as the producer and the consumer knew them."""
