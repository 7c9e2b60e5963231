def footprint(*_):
    return None
