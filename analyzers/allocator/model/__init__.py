"""PyTorch's caching allocator as a model: the same requests, under these settings or others."""
