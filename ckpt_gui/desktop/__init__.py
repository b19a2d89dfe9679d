"""What ties the program to the desktop that it runs on, without Qt: bundled files, one process a user, file types."""
