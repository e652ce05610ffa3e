"""Outputs."""


class Comparer:
    def __init__(self, *args):
        pass

    def run(self, size):
        pass
