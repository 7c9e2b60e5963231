"""A vision-language model that is asked about trips, with forced answers (method §4).

It is an option of whoever runs a worker or the shell, and never needed: one that is down,
slow, unreadable or caught lying leaves its evidence out and costs no run.
"""
