"""What is kept of VMs' words and of templates is bounded by bytes, whatever tenants write."""

from merkatd.opennebula import vm_words
from merkatd.platforms import vm_text
from merkatd.remembering import Remembered


def test_the_oldest_go_when_the_bytes_are_used_up() -> None:
    """Results stay right, and what is kept is never more than the bound."""
    made: list[str] = []

    def make(key: str) -> str:
        made.append(key)
        return key.upper()

    kept = Remembered(make, len, 2_000)
    for number in range(100):
        assert kept(f"a{number}" + "x" * 300) == f"A{number}" + "X" * 300
        assert kept.bytes <= 2_000
    newest = "a99" + "x" * 300
    assert made.count(newest) == 1
    assert kept(newest)
    assert made.count(newest) == 1
    assert kept("a0" + "x" * 300)
    assert made.count("a0" + "x" * 300) == 2


def test_a_key_that_is_too_large_is_not_kept_and_pushes_none_out() -> None:
    """It costs its own work alone."""
    kept = Remembered(str.upper, len, 1_000)
    assert kept("a") == "A"
    before = kept.bytes
    assert kept("x" * 5_000) == "X" * 5_000
    assert kept.bytes == before


def test_templates_and_wants_of_any_length_are_bounded() -> None:
    """A tenant who changes a long template again and again holds no memory by it."""
    text = 'CPU=1\nMEMORY=1\nA{}="' + "x" * 60_000 + '"\n'
    for number in range(40):
        assert vm_text.wrong(text.replace("{}", str(number))) is None
        assert vm_text._parsed.bytes <= vm_text._MOST_KEPT_BYTES
    nothing = vm_words._Says("", "", "", "", "", "", "", (), (), (), (), ())
    disks = ((("SIZE", "1"), ("TYPE", "x" * 400)),) * 512
    for number in range(100):
        says = nothing._replace(requirements=str(number), disks=disks)
        assert vm_words._wants(says).requirements == str(number)
        assert vm_words._wants.bytes <= vm_words._MOST_KEPT_BYTES
    assert vm_words._bytes(says) > 512 * 400
