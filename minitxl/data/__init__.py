"""Text to batches.

Its files:

    corpora             the paper's corpora by name, a text of your own, and the text that comes with Python
    corpus              a text as tokens, in a training, a validation and a test split
    batching            a stream as lanes that are read side by side
    tokenizer           text to token ids and back
    detokenizer         words as people write them
    download_addresses  addresses, checksums and licences of the paper's corpora
    downloads           files from the web, fetched whole or not at all
    archives            their archives, read file by file
    text_file           text files, read block by block
    splits              which files are training, validation and test text
    prepare             texts to a folder of tokens
    token_file          tokens that stay on disk
"""
