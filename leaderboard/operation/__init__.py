"""Operation of a site: storage, backups, mails, monitoring, preparation of scoring."""
