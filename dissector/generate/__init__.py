"""Traffic made to order: scenarios, faults by rule, network impairments, and the captures they give.

Imported only by those who make captures. The bytes of every message come from the protocol's declarations; what a
scenario says, and what is wrong with it, is known before it is written, and is written down beside it as the truth.
"""
