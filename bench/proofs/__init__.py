"""The long tests at full size. Their outcomes are stored, so that the documents can quote them."""
