-- Forgets the session KEYS[1].
return {redis.call('UNLINK', KEYS[1])}
