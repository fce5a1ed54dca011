"""Video-text input: data set folders, decoding, preprocessing (numpy only)."""
