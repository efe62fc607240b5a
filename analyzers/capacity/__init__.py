"""From a trace of requests to what a pool of KV blocks holds, and a rule of admission that holds too."""
