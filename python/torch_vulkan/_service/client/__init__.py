"""The users' side in Python: jobs, engines fetched or built here, models registered."""
