"""Small modules that every layer uses: checks of arguments, handles, attributes, NumPy on demand, words, release."""
