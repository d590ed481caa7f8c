"""Text to batches.

corpora      the paper's corpora by name, a text of your own, and the text that comes with Python
corpus       a text as tokens, in a training, a validation and a test part
batching     a stream as lanes that are read side by side
tokenizer    text to token ids and back
detokenizer  words as people write them
downloads    the paper's corpora from their addresses
archives     their archives, read file by file
text_file    text files, read block by block
parts        which files are training, validation and test text
prepare      texts to a folder of tokens
token_file   tokens that stay on disk
"""
