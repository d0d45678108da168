"""Answers about the protocol: what ``uprscope explain`` looks up, as data and as text.

``catalogue`` lists everything that can be asked, ``lookup`` finds it, ``as_data`` writes it as data,
``as_text`` as prose, tables and diagrams. All of it comes from :mod:`dissector.spec`; nothing here reads a capture.
"""
