"""The messages of the Kafka protocol. Their codecs are generated from declarations.

- `messages/` has the declarations, and `declaration` parses them.
- `generator` generates the Python code of the codecs, and `build` writes the code to `generated/`.
  Import a message with `from odradek.wire.generated.x import X`.
- `primitives` has functions that the generated code uses.
- `api` lists the APIs by key.
"""
