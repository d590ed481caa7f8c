"""What the experiments share: how they are run, stored, told apart from changed code, and kept small."""
