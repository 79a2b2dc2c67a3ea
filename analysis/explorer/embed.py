def embedded_films(*a):
    return None
