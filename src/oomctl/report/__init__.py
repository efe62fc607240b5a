"""`oomctl report`: the verdict, its charts and what they were drawn from, as one page that needs no network."""
