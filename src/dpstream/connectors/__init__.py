"""Where records come from: files, folders, standard input, and data in memory."""
