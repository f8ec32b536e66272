"""The pages: what readings say is drawn, what people choose becomes an action. Nothing is decided here."""
