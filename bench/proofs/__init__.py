"""The long tests at full size. Their results are stored, and the documents show them."""
