"""One sentence for the user, and the exit code that goes with it."""


class Trouble(Exception):
    def __init__(self, sentence, code=1):
        super().__init__(sentence)
        self.code = code
