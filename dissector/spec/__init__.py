"""The protocol as data: one declaration per message, from which decoder, encoder, plugin and documents derive.

To add an opcode, add one :class:`~dissector.spec.model.Message` to ``dcp`` (or ``dcp_data``, ``dcp_sync``) and one byte
vector to ``tests/data/vectors.json``; everything else follows. ``registry`` holds all tables against each other.
"""
