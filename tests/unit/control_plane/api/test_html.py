"""Pages."""

from control_plane.api.html import Marked, page, page_headers, table


def test_foreign_texts_are_escaped() -> None:
    """In titles and cells, with a mark or without."""
    text = table(("<i>",), [("<script>", Marked('"&', "good"))])
    assert "<script>" not in text
    assert "<th>&lt;i&gt;</th>" in text
    assert '<td class="good">&quot;&amp;</td>' in text
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
