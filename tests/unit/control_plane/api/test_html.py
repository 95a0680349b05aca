"""Pages."""

from control_plane.api.html import page, page_headers


def test_a_title_is_escaped() -> None:
    """It may hold anything."""
    assert b"<title>&lt;x&gt;</title>" in bytes(page("<x>", "").body)


def test_a_page_allows_its_own_style_only() -> None:
    """By its hash; no script, no frame."""
    answer = page("x", "y", status=401, headers={"www-authenticate": "Bearer"})
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "script-src" not in policy
    assert page_headers("p")["x-frame-options"] == "DENY"
