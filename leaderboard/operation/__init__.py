"""Operation of a site: storage, backups, mails, monitoring, scoring packages."""
