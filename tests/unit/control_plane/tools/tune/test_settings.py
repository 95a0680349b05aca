"""Settings."""

from control_plane.tools.tune.settings import Setting, settings


def test_settings_ascend_by_size() -> None:
    """Every pair once; without windows nobody waits."""
    assert settings((10, 5, 5), ()) == (Setting(5), Setting(10))
    assert settings((5, 10), (200, 50)) == (
        Setting(5, 50),
        Setting(5, 200),
        Setting(10, 50),
        Setting(10, 200),
    )
