"""What the service keeps: the database, files by their digest, keys and signatures."""
