"""The long tests at full size. What came of each is stored, so that the documents can quote it."""
