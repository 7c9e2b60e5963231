"""What keeps a site going: what its pictures take, how they are kept, backups, figures to watch."""
