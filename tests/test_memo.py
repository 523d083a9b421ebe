"""What is kept: properties computed once, without a lock; values by the identity of their keys."""

import threading

from loopwright.memo import IdentityMap, computed_once
from loopwright.sparse.uf import Term, UFCall


class Counted:
    def __init__(self) -> None:
        self.calls = 0

    @computed_once
    def value(self) -> list[int]:
        """A fresh list."""
        self.calls += 1
        return [self.calls]


def test_computed_once() -> None:
    one, other = Counted(), Counted()
    assert one.value is one.value
    assert one.calls == 1
    assert other.calls == 0
    assert Counted.value.__doc__ == "A fresh list."


def test_two_threads_get_one_object() -> None:
    meet = threading.Barrier(2)

    class Slow:
        @computed_once
        def value(self) -> object:
            meet.wait(30)  # neither has stored its own yet
            return object()

    shared, found = Slow(), []
    workers = [threading.Thread(target=lambda: found.append(shared.value)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert len(found) == 2
    assert found[0] is found[1]


def test_threads_that_hash_terms_within_calls_do_not_wait_for_each_other() -> None:
    def nested(depth: int, name: str) -> Term:
        term = Term.of(0)
        for _ in range(depth):
            term = Term.of(UFCall(name, (term,)))
        return term

    def work(at: int) -> None:
        for n in range(300):
            term = nested(30, f"f{at}_{n}")
            hash(term if at % 2 else UFCall("g", (term,)))

    workers = [threading.Thread(target=work, args=(at,), daemon=True) for at in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not any(worker.is_alive() for worker in workers)


def test_equal_keys_have_values_of_their_own() -> None:
    one, other = [1], [1]  # neither can be hashed
    found: IdentityMap[list[int], str] = IdentityMap([(one, "one")])
    assert (one in found, other in found) == (True, False)
    assert (found.get(one), found.get(other)) == ("one", None)
    found[other] = "other"
    assert (found[one], found[other]) == ("one", "other")


def test_no_later_object_takes_the_address_of_a_key() -> None:
    found: IdentityMap[list[int], int] = IdentityMap()
    for n in range(100):
        found[[n]] = n  # freed here, if the map did not hold it
        assert [n + 1] not in found
