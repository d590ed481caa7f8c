"""The commands, a file each; ``minitxl.__main__`` gathers them."""
