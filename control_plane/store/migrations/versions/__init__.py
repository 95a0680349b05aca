"""One migration a file, each with the number of the schema it leads to."""
