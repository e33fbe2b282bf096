"""A fake of Xen's `xl` for pins; tests/xen uses the real one."""

from pathlib import Path

_SCRIPT = """\
#!/bin/sh
cd {place}
echo "$@" >> log
if [ -s broken ]; then cat broken >&2; exit 1; fi
case "$1" in
vcpu-pin) echo "$4" > "pins/$2:$3" ;;
vcpu-list)
    echo 'Name                    ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)'
    echo 'Domain-0                 0     0    1   r--      31.4  all / all'
    for file in pins/*; do
        [ -e "$file" ] || continue
        file=${{file#pins/}}
        printf '%-20s %5d %5d    0   -b-    1205.7  %s / all\\n' \\
            "${{file%:*}}" 7 "${{file#*:}}" "$(cat "pins/$file")"
    done ;;
esac
"""


class FakeXl:
    """The command and a record of its calls."""

    def __init__(self, directory: Path) -> None:
        self._place = directory / "xen"
        self._pins = self._place / "pins"
        self._pins.mkdir(parents=True)
        self._script = self._place / "xl"
        self._script.write_text(_SCRIPT.format(place=self._place))
        self._script.chmod(0o755)

    @property
    def command(self) -> str:
        """Return the command for the settings."""
        return str(self._script)

    def start_domain(self, domain: str, vcpus: int = 2) -> None:
        """Add a domain that may use all cores."""
        self.pin(domain, *["all"] * vcpus)

    def pin(self, domain: str, *affinities: str) -> None:
        """Pin as another program would."""
        for vcpu, affinity in enumerate(affinities):
            (self._pins / f"{domain}:{vcpu}").write_text(affinity)

    def pins(self, domain: str) -> list[str]:
        """Return the affinity of each virtual CPU, as listed."""
        return [file.read_text().strip() for file in sorted(self._pins.glob(f"{domain}:*"))]

    def fail_with(self, why: str) -> None:
        """Fail with this text from now on; "" makes it work again."""
        (self._place / "broken").write_text(why)

    def calls(self) -> list[str]:
        """Return the calls since the last time."""
        log = self._place / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines
