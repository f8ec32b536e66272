"""The pages: they draw readings and turn user input into actions, without logic of their own."""
