"""Between texts and token ids."""
