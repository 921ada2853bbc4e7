"""The Kafka protocol: one declaration per message, and the codecs generated from them.

`messages/` has the declarations, `declaration` parses them, `generator` generates straight-line
Python code, and `build` writes it to `generated/`, from where it is imported (`from
odradek.wire.generated.x import X`). `api` lists the APIs by key; `primitives` has functions that
the generated code uses.
"""
