"""The recorder, beside a worker: what its rings and its log say, kept on disk within a budget, frozen at an incident."""
