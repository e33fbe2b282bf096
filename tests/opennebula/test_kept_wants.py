"""Caches of VMs' texts and of templates are limited in bytes, whatever tenants write."""

from merkatd.base.bounded_cache import BoundedCache, digest
from merkatd.fleets import vm_template_text
from merkatd.opennebula.pools import vm_templates


def _length(key: str, _made: str) -> int:
    return len(key)


def test_results_are_dropped_when_the_bytes_are_used_up() -> None:
    """Results stay correct, and the cache never exceeds its limit."""
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    kept = BoundedCache(make, _length, 2_000)
    for number in range(100):
        assert kept(f"a{number}" + "x" * 300) == f"A{number}" + "X" * 300
        assert kept.bytes <= 2_000
    newest = "a99" + "x" * 300
    assert made.count(newest) == 1
    assert kept(newest)
    assert made.count(newest) == 1
    assert kept("a0" + "x" * 300)
    assert made.count("a0" + "x" * 300) == 2


def test_cyclic_use_finds_most_results() -> None:
    """Periods use the same keys in the same order, and the limit causes no cliff."""
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key

    kept = BoundedCache(make, _length, 400 * 300)
    keys = [f"{number:03}" + "x" * 97 for number in range(420)]
    for _ in range(5):
        for key in keys:
            assert kept(key) == key
    made.clear()
    for key in keys:
        assert kept(key) == key
    assert len(made) < len(keys) / 3


def test_results_are_cached_by_the_digest_of_a_text() -> None:
    """The text itself is not stored."""
    kept = BoundedCache(len, lambda _key, _made: 0, 1_000, digest)
    assert kept("x" * 100_000) == 100_000
    assert kept("x" * 100_001) == 100_001
    assert kept("\udc80") == 1
    assert kept.bytes == 600
    assert {type(key) for key in kept._kept} == {bytes}


def test_a_too_large_key_is_not_cached_and_displaces_none() -> None:
    """It costs only its own work."""
    kept = BoundedCache(str.upper, _length, 1_000)
    assert kept("a") == "A"
    before = kept.bytes
    assert kept("x" * 5_000) == "X" * 5_000
    assert kept.bytes == before


def test_cached_templates_and_requirements_are_limited() -> None:
    """Frequent changes of a long template use no more memory."""
    text = 'CPU=1\nMEMORY=1\nA{}="' + "x" * 60_000 + '"\n'
    for number in range(40):
        assert vm_template_text.template_problem(text.replace("{}", str(number))) is None
        assert vm_template_text._parsed.bytes <= vm_template_text._MOST_KEPT_BYTES
    nothing = vm_templates._Says("", "", "", "", "", "", "", (), (), (), (), ())
    disks = ((("SIZE", "1"), ("TYPE", "x" * 400)),) * 512
    for number in range(100):
        says = nothing._replace(requirements=str(number), disks=disks)
        assert vm_templates._wants(says).requirements == str(number)
        assert vm_templates._wants.bytes <= vm_templates._MOST_KEPT_BYTES
    assert vm_templates._bytes(says) > 512 * 400
