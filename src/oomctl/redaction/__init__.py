"""What `oomctl export --redact` leaves: an event table to hand to strangers.

An allow-list, in three steps. Names that stand where names stand (hosts, users, models, ...) are learnt from the whole
table and replaced wherever they occur. Of a path and a frame only what belongs to a public package stays. Of all other
words only those stay that public source code uses; the rest become `word-1`. Numbers stay: the verdict is made of them.
"""
