"""Where goals come from: what CI wrote, what people wish, and what git knows. Reads only; sends and prints nothing."""
