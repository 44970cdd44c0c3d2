"""Parts that every layer uses: errors, validation of arguments, text and figures."""
