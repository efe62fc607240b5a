"""Bad days, on purpose: a real engine under load, the recorder beside it, and all around them failing. `make soak`."""
