"""The formats of files: what is read into events and written from histories (DESIGN section 8)."""
