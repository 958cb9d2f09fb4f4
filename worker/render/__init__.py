"""What commands print, drawn for a terminal."""
