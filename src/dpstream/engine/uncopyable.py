"""Things that hold a budget and therefore exist once."""

from typing import Never, SupportsIndex

from dpstream.errors import NotPrivate


class Uncopyable:
    """Cannot be copied, deep-copied or pickled: the copy would spend the same budget again."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> Never:
        raise NotPrivate(
            f"a {type(self).__name__} cannot be copied or pickled: its budget belongs to one "
            "stream; open a new one"
        )
