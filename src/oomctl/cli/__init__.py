"""The command: one small file per subcommand, and one boundary where errors become exit statuses."""
