"""Developer tools that are not part of the package: references for the docs, snippets, words, releases."""
